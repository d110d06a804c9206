// What the benchmark compares: the operations on bare node:http, and as one would write them with
// Fastify.

export const KEY = 'a-key-of-32-characters-as-usual-'

/** A server that sends constant bytes. */
export const BARE = `
const { createServer } = require('node:http')
const pets = JSON.parse(require('node:fs').readFileSync(process.env.SEED))
const json = pets.map((pet, at) => JSON.stringify({ id: at + 1, ...pet }))
const page = (count) => '[' + json.slice(0, count).join(',') + ']'
const bodies = {
  '/v1/pets': page(20), '/v1/pets?limit=100': page(100), '/v1/pets/500': json[499],
}
const send = (res, status, body) => {
  res.writeHead(status, { 'Content-Type': 'application/json', 'Content-Length': body.length })
  res.end(body)
}
createServer((req, res) => {
  if (!req.headers.authorization.endsWith(process.env.KEY)) return send(res, 401, '{}')
  if (req.method === 'GET') return send(res, 200, bodies[req.url])
  req.resume().on('end', () => send(res, 201, json[0]))
}).listen(0, '127.0.0.1', function () {
  console.log('http://127.0.0.1:' + this.address().port + '/v1')
})`

/** With Fastify's router, schemas and, if LOG is set, log. */
export const FASTIFY = `
const statuses = ['available', 'pending', 'sold']
const int = (minimum, maximum) => ({ type: 'integer', minimum, maximum })
const members = { name: { type: 'string' }, categoryId: int(), status: { enum: statuses } }
const pet = { type: 'object', properties: { id: int(), ...members } }
const list = { type: 'array', items: pet }
const body = { type: 'object', required: ['name', 'categoryId'], properties: members }
const query = {
  type: 'object',
  properties: { limit: int(1, 100), after: int(0), status: { enum: statuses } },
}
const pets = JSON.parse(require('node:fs').readFileSync(process.env.SEED))
pets.forEach((pet, at) => Object.assign(pet, { id: at + 1 }))
const app = require('fastify')({ logger: process.env.LOG === 'json' })
app.addHook('onRequest', async (req, reply) => {
  const isValid = req.headers.authorization === 'Bearer ' + process.env.KEY
  if (!isValid) return reply.code(401).send({ code: 'unauthorized', message: '', status: 401 })
})
const page = { schema: { querystring: query, response: { 200: list } } }
app.get('/v1/pets', page, async ({ query: { limit = 20, after = 0, status } }) => {
  const found = []
  for (let at = after; at < pets.length && found.length < limit; at++) {
    if (status === undefined || pets[at].status === status) found.push(pets[at])
  }
  return found
})
app.get('/v1/pets/:id', { schema: { response: { 200: pet } } }, async (req, reply) => {
  return pets[req.params.id - 1] ?? reply.callNotFound()
})
app.post('/v1/pets', { schema: { body, response: { 201: pet } } }, async (req, reply) => {
  pets.push({ id: pets.length + 1, ...req.body })
  return reply.code(201).send(pets.at(-1))
})
const say = process.env.LOG === 'json' ? console.error : console.log
app.listen({ port: 0 }).then((url) => say(url + '/v1'))`
