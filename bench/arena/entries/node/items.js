// The shapes of the answers, by which fastify makes their JSON faster than JSON.stringify does.
'use strict';

const integer = { type: 'integer' };
const item = (hasTotal) => ({
  type: 'object',
  properties: {
    id: integer,
    name: { type: 'string' },
    category: { type: 'string' },
    price: integer,
    quantity: integer,
    active: { type: 'boolean' },
    tags: { type: 'array', items: { type: 'string' } },
    rating: { type: 'object', properties: { score: integer, count: integer } },
    ...(hasTotal ? { total: integer } : {}),
  },
});
const list = (hasTotal, others) => ({
  response: { 200: { type: 'object', properties: { items: { type: 'array', items: item(hasTotal) }, ...others } } },
});

module.exports = {
  listedSchema: (hasTotal) => list(hasTotal, { count: integer }),
  pageSchema: list(false, { total: integer, page: integer, limit: integer }),
};
