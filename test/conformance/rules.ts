// The rules that take more than a transcript.
import { type Client, NotPossible } from './client.ts'
import { type Pet, STATUSES } from './response.ts'

/** By this name whoever runs the server knows where a pet came from. */
export const NAME = 'petstore-server conformance'

export type Checks = Readonly<Record<string, (client: Client) => Promise<void>>>

/** The first pets, 100 at most. Skips the rule if there are less than this. */
async function atLeast(client: Client, count: number): Promise<readonly Pet[]> {
  const { pets } = await client.ask('GET /pets?limit=100')
  if (pets.length < count) throw new NotPossible(`needs ${count} pets, but sees ${pets.length}`)
  return pets
}

const post = (members: string) => ({ ask: 'POST /pets', body: `{"name":"${NAME}",${members}}` })

export const contract: Checks = {
  'Endpoints: the base address ends in /v1': async (client) => {
    const response = await client.ask('GET /pets')
    response.should('at an address that ends in /v1', client.basePath.endsWith('/v1'))
  },

  'Add an animal, rule 3: the id is assigned by the service, not by the client': async (client) => {
    const { pet } = await client.ask(post('"categoryId":1'))
    const response = await client.ask(post(`"categoryId":1,"id":${pet.id}`))
    if (response.status !== 400) response.should('with another id', response.pet.id !== pet.id)
    const got = await client.ask(`GET /pets/${pet.id}`)
    got.shouldEqual(pet, got.json)
  },

  'List animals, rule 1: without `limit` at most 20 animals are returned': async (client) => {
    const response = await client.ask('GET /pets')
    response.should('at most 20 pets', response.pets.length <= 20)
    await atLeast(client, 21)
  },

  'Limits: the default of `limit` is 20': async (client) => {
    const { pets } = await client.ask('GET /pets?limit=20')
    const response = await client.ask('GET /pets')
    response.shouldEqual(pets, response.json)
  },

  'List animals, rule 2: at most `limit` animals are returned': async (client) => {
    await atLeast(client, 2)
    for (const limit of [1, 2]) {
      const response = await client.ask(`GET /pets?limit=${limit}`)
      response.should(`${limit} pets`, response.pets.length === limit)
    }
  },

  'List animals, rule 3: all animals with the `status` are returned, no other': async (client) => {
    const all = await atLeast(client, 1)
    for (const status of STATUSES) {
      const response = await client.ask(`GET /pets?limit=100&status=${status}`)
      const isSo = response.pets.every((pet) => pet.status === status)
      response.should(`only pets that are ${status}`, isSo)
      const matching = all.filter((pet) => pet.status === status)
      if (all.length < 100) response.shouldEqual(matching, response.json)
    }
  },

  'List animals, rules 2 and 3: `limit` counts the animals with the `status`': async (client) => {
    for (const { status } of (await atLeast(client, 1)).filter((pet) => pet.status).slice(-2)) {
      const response = await client.ask(`GET /pets?limit=1&status=${status}`)
      response.should('one pet', response.pets.length === 1)
    }
  },

  'Get an animal, 200: the Animal with this id': async (client) => {
    const all = await atLeast(client, 2)
    for (const pet of [...all.slice(0, 1), ...all.slice(-1)]) {
      const response = await client.ask(`GET /pets/${pet.id}`)
      response.shouldBe('200')
      response.shouldEqual(pet, response.json)
    }
  },
}

export const http: Checks = {
  'RFC 9110, 15.5.6: a 405 has Allow': async (client) => {
    const response = await client.ask('PROPFIND /pets') // it changes nothing, whatever the server
    response.should('405, or 501', [405, 501].includes(response.status))
    if (response.status === 405) response.shouldHave('Allow', '/^.*\\bGET\\b/')
  },

  'RFC 9110, 9.3.2: HEAD is answered as GET, without content': async (client) => {
    for (const path of ['/pets', '/none']) {
      const { status } = await client.ask(`GET ${path}`)
      const response = await client.ask(`HEAD ${path}`)
      response.should(`${status}, as GET`, response.status === status)
      response.should('without content', response.content.length === 0)
    }
  },

  'RFC 9110, 8.6: Content-Length is true, for HEAD too': async (client) => {
    for (const path of ['/pets', '/none']) {
      const response = await client.ask(`GET ${path}`)
      const head = await client.ask(`HEAD ${path}`)
      const { length } = response.content
      for (const one of head.status === response.status ? [response, head] : [response]) {
        const isTrue = Number(one.header('content-length') ?? length) === length
        one.should(`with Content-Length: ${length}`, isTrue)
      }
    }
  },

  'RFC 9110, 8.6: a 204 has no Content-Length': async (client) => {
    const response = await client.ask('OPTIONS /pets')
    if (response.status === 204) response.shouldHave('Content-Length', undefined)
  },

  'RFC 9112, 6.1: a response to HTTP/1.0 has no Transfer-Encoding': async (client) => {
    const response = await client.ask({ ask: 'GET /pets', version: '1.0' })
    response.shouldHave('Transfer-Encoding', undefined)
  },
}

export const decisions: Checks = {
  'Pages: pets are listed by ascending id': async (client) => {
    const ascending = (await atLeast(client, 2)).toSorted((a, b) => (a.id < b.id ? -1 : 1))
    const response = await client.ask('GET /pets?limit=100')
    response.shouldEqual(ascending, response.json)
  },

  'Pages: `after` lists only pets with a greater id': async (client) => {
    const [first, ...more] = await atLeast(client, 2)
    const response = await client.ask(`GET /pets?limit=99&after=${first?.id}`)
    response.shouldEqual(more, response.json)
  },

  'Pages: one that is not the last has a Link to the next, with its filters': async (client) => {
    const all = await atLeast(client, 3)
    for (const filter of ['', '&status=sold']) {
      const [first, second] = filter === '' ? all : all.filter(({ status }) => status === 'sold')
      if (second === undefined) continue
      const response = await client.ask(`GET /pets?limit=1${filter}`)
      response.shouldHave(
        'Link',
        `<${client.basePath}/pets?limit=1${filter}&after=${first?.id}>; rel="next"`,
      )
    }
  },

  'Pages: the last has no Link': async (client) => {
    const all = await atLeast(client, 2)
    const last = await client.ask(`GET /pets?after=${all.at(-2)?.id}&limit=1`)
    if (all.length < 100) last.shouldHave('Link', undefined)
  },

  'Pets: a 201 has Location, and its members in order; ids ascend by one': async (client) => {
    const name = `${NAME} \0\n"\\/ Zoë 🐕 \ud800 \udc00 __proto__`
    const odd = `"status":"sold","x":{},"name":1,"categoryId":1.0,"name":${JSON.stringify(name)}`
    const asked = { ask: 'POST /pets', headers: ['Content-Type:'], body: `{${odd}}` }
    const { pet } = await client.ask(asked)
    await client.ask({ ask: 'POST /pets', body: '{}' })
    const response = await client.ask(asked)
    response.shouldBe('201 Animal')
    response.shouldHave('Location', `${client.basePath}/pets/${pet.id + 1n}`)
    const expected = { id: pet.id + 1n, name, categoryId: 1n, status: 'sold' }
    response.shouldEqual(Object.entries(expected), Object.entries(response.pet))
  },

  'getPet: a 200 has the headers of the deprecation': async (client) => {
    const [pet] = await atLeast(client, 1)
    const response = await client.ask(`GET /pets/${pet?.id}`)
    response.shouldHave('Deprecation', '@1795132800')
    response.shouldHave('Sunset', 'Thu, 05 Dec 2030 00:00:00 GMT')
    const notice = '</>; rel="deprecation"; type="text/html"'
    response.shouldHave('Link', `<${client.basePath}/pets>; rel="successor-version", ${notice}`)
  },
}
