// The decisions that take more than a transcript.
import type { Pet } from './response.ts'
import { atLeast, client, level, NAME, rule } from './suite.ts'

const pets = `${client.basePath}/pets`
const idsOf = (all: readonly Pet[]) => all.map(({ id }) => id)
const post = (members: string) => ({ ask: 'POST /pets', body: `{"name":"${NAME}",${members}}` })

level('decisions', () => {
  rule('Pages: pets are listed by ascending id', async () => {
    await atLeast(2)
    const response = await client.ask('GET /pets?limit=100')
    const ascending = idsOf(response.pets).sort((a, b) => (a < b ? -1 : 1))
    response.shouldEqual(ascending, idsOf(response.pets))
  })

  rule('Pages: `after` lists only pets with a greater id', async () => {
    const [first, ...more] = await atLeast(2)
    const response = await client.ask(`GET /pets?limit=99&after=${first?.id}`)
    response.shouldEqual(idsOf(more), idsOf(response.pets))
  })

  rule('Pages: one that is not the last has a Link to the next, with its filters', async () => {
    const all = await atLeast(3)
    const sold = all.filter(({ status }) => status === 'sold')
    for (const [filter, matching] of [
      ['', all],
      ['&status=sold', sold],
    ] as const) {
      if (matching.length < 2) continue
      const response = await client.ask(`GET /pets?limit=1${filter}`)
      const next = `<${pets}?limit=1${filter}&after=${matching[0]?.id}>; rel="next"`
      response.shouldHave('Link', next)
    }
  })

  rule('Pages: the last has no Link', async () => {
    const all = await atLeast(2)
    const last = await client.ask(`GET /pets?after=${all.at(-2)?.id}&limit=1`)
    if (all.length < 100) last.shouldHave('Link', undefined)
    const empty = await client.ask('GET /pets?after=9223372036854775807')
    empty.shouldEqual([], empty.json)
    empty.shouldHave('Link', undefined)
  })

  rule('Pets: a 201 has Location, and id, name, categoryId, status in this order', async () => {
    const name = `${NAME} \0\n"\\/ Zoë 🐕 \ud800 \udc00 __proto__`
    const odd = `"status":"sold","x":{},"name":1,"categoryId":1.0,"name":${JSON.stringify(name)}`
    const body = `{${odd}}`
    const response = await client.ask({ ask: 'POST /pets', headers: ['Content-Type:'], body })
    response.shouldBe('201')
    response.shouldHave('Location', `${pets}/${response.pet.id}`)
    response.shouldEqual('id,name,categoryId,status', Object.keys(response.members).join())
    response.shouldEqual(name, response.pet.name)
    response.shouldEqual(1n, response.pet.categoryId)
  })

  rule('Pets: ids ascend by one, and a pet that is refused takes none', async () => {
    const first = await client.ask(post('"categoryId":-0'))
    await client.ask({ ask: 'POST /pets', body: '{}' })
    const response = await client.ask(post('"categoryId":2e3'))
    response.shouldEqual(first.pet.id + 1n, response.pet.id)
    response.shouldEqual(2000n, response.pet.categoryId)
  })

  rule('getPet: a 200 has the headers of the deprecation', async () => {
    const [pet] = await atLeast(1)
    const response = await client.ask(`GET /pets/${pet?.id}`)
    response.shouldHave('Deprecation', '@1795132800')
    response.shouldHave('Sunset', 'Thu, 05 Dec 2030 00:00:00 GMT')
    const notice = '</>; rel="deprecation"; type="text/html"'
    response.shouldHave('Link', `<${pets}>; rel="successor-version", ${notice}`)
  })

  rule('Headers: every response of the API has its Content-Length', async () => {
    for (const ask of ['GET /pets', 'GET /none', 'GET /pets?limit=0', 'PROPFIND /pets']) {
      const response = await client.ask(ask)
      response.shouldHave('Content-Length', `${response.content.length}`)
    }
  })
})
