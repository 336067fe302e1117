-- The guardian's check counts a bucket's claims up to a watermark. Claims are inserted in the order of the log, so a
-- block range index finds the recent ones without the cost of a tree for each row.
CREATE INDEX claims_by_entry ON claims USING brin (entry_ms) WITH (pages_per_range = 32, autosummarize = on);
