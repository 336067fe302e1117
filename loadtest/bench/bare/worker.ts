import { Hono } from 'hono'

const app = new Hono()
app.post('/v1/campaigns/:id/claims', (c) => c.json({ id: c.req.param('id'), status: 'ACCEPTED' }, 202))

export default app
