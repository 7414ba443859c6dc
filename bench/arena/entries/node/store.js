// The rows of the database, and the handlers that read and write them. Single rows are kept for 200 ms.
'use strict';

const { Pool } = require('pg');
const items = require('./items.js');

const KEEP_MS = 200;
const COLUMNS = 'SELECT id, name, category, price, quantity, active, tags, rating_score, rating_count FROM items';
const pool = new Pool({ connectionString: process.env.DATABASE_URL, max: Number(process.env.DATABASE_MAX_CONN ?? '32') });
const kept = new Map(); // id -> its JSON, and until when it is good

const number = (text, otherwise) => (Number.isInteger(Number(text)) && text !== undefined ? Number(text) : otherwise);
const between = (low, high, value) => Math.max(low, Math.min(high, value));

function item({ rating_score: score, rating_count: count, ...row }) {
  return { ...row, rating: { score, count } };
}

async function rows(name, condition, values) {
  return (await pool.query({ name, text: `${COLUMNS} ${condition}`, values })).rows.map(item);
}

async function search(request) {
  const { min, max, limit } = request.query;
  const values = [number(min, 10), number(max, 50), between(1, 50, number(limit, 50))];
  const found = await rows('search', 'WHERE price BETWEEN $1 AND $2 LIMIT $3', values);
  return { items: found, count: found.length };
}

async function page(request) {
  const { query } = request;
  const [number_, limit] = [Math.max(1, number(query.page, 1)), between(1, 50, number(query.limit, 10))];
  const values = [query.category ?? 'electronics', limit, (number_ - 1) * limit];
  const found = await rows('page', 'WHERE category = $1 ORDER BY id LIMIT $2 OFFSET $3', values);
  return { items: found, total: found.length, page: number_, limit };
}

async function read(request, reply) {
  const id = number(request.params.id, 0);
  const known = kept.get(id);
  reply.type('application/json');
  if (known && Date.now() < known.until) return reply.header('X-Cache', 'HIT').send(known.content);
  const [found] = await rows('one', 'WHERE id = $1', [id]);
  if (!found) return reply.code(404).send('{}');
  const content = JSON.stringify(found);
  kept.set(id, { content, until: Date.now() + KEEP_MS });
  return reply.header('X-Cache', 'MISS').send(content);
}

async function create(request, reply) {
  const { id, name, category, price, quantity } = request.body;
  await pool.query({
    name: 'create',
    text: `INSERT INTO items VALUES ($1, $2, $3, $4, $5, true, '[]', 0, 0) ON CONFLICT (id) DO UPDATE SET
           name = EXCLUDED.name, category = EXCLUDED.category, price = EXCLUDED.price, quantity = EXCLUDED.quantity`,
    values: [id, name, category, price, quantity],
  });
  kept.delete(id);
  return reply.code(201).send({ id, name, category, price, quantity });
}

async function update(request, reply) {
  const id = number(request.params.id, 0);
  const { name, price, quantity } = request.body;
  const done = await pool.query({
    name: 'update', text: 'UPDATE items SET name = $2, price = $3, quantity = $4 WHERE id = $1', values: [id, name, price, quantity],
  });
  kept.delete(id);
  if (done.rowCount === 0) return reply.code(404).send({});
  return { id, name, price, quantity };
}

function routes(app) {
  app.get('/async-db', { schema: items.listedSchema(false) }, search);
  app.get('/crud/items', { schema: items.pageSchema }, page);
  app.get('/crud/items/:id', read);
  app.post('/crud/items', create);
  app.put('/crud/items/:id', update);
}

module.exports = { routes };
