-- Which Redis deployment has a campaign's gates (SC2). Its id says so too; here it is for queries, such as which
-- store has the fewest campaigns, and which campaigns one store's drain is to look after.
ALTER TABLE campaigns ADD COLUMN store text NOT NULL DEFAULT 'main';
