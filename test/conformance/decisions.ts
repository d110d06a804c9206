// The decisions that take more than a transcript.
import { atLeast, client, level, NAME, rule } from './suite.ts'

const pets = `${client.base.pathname}/pets`

level('decisions', () => {
  rule('Pages: pets are listed by ascending id', async () => {
    const ids = (await atLeast(2)).map(({ id }) => id)
    const response = await client.ask('GET /pets?limit=100')
    const ascending = ids.sort((a, b) => (a < b ? -1 : 1))
    response.shouldEqual(
      ascending,
      response.pets.map(({ id }) => id),
    )
  })

  rule('Pages: `after` lists only pets with a greater id', async () => {
    const [first, ...more] = await atLeast(2)
    const response = await client.ask(`GET /pets?limit=99&after=${first?.id}`)
    response.shouldEqual(more, response.json)
  })

  rule('Pages: one that is not the last has a Link to the next, with its filters', async () => {
    const all = await atLeast(3)
    for (const filter of ['', '&status=sold']) {
      const [first, second] = filter === '' ? all : all.filter(({ status }) => status === 'sold')
      if (second === undefined) continue
      const response = await client.ask(`GET /pets?limit=1${filter}`)
      response.shouldHave('Link', `<${pets}?limit=1${filter}&after=${first?.id}>; rel="next"`)
    }
  })

  rule('Pages: the last has no Link', async () => {
    const all = await atLeast(2)
    const last = await client.ask(`GET /pets?after=${all.at(-2)?.id}&limit=1`)
    if (all.length < 100) last.shouldHave('Link', undefined)
  })

  rule('Pets: a 201 has Location, and its members in order; ids ascend by one', async () => {
    const name = `${NAME} \0\n"\\/ Zoë 🐕 \ud800 \udc00 __proto__`
    const odd = `"status":"sold","x":{},"name":1,"categoryId":1.0,"name":${JSON.stringify(name)}`
    const asked = { ask: 'POST /pets', headers: ['Content-Type:'], body: `{${odd}}` }
    const { pet } = await client.ask(asked)
    await client.ask({ ask: 'POST /pets', body: '{}' })
    const response = await client.ask(asked)
    response.shouldBe('201 Animal')
    response.shouldHave('Location', `${pets}/${pet.id + 1n}`)
    const expected = { id: pet.id + 1n, name, categoryId: 1n, status: 'sold' }
    response.shouldEqual(Object.entries(expected), Object.entries(response.pet))
  })

  rule('getPet: a 200 has the headers of the deprecation', async () => {
    const [pet] = await atLeast(1)
    const response = await client.ask(`GET /pets/${pet?.id}`)
    response.shouldHave('Deprecation', '@1795132800')
    response.shouldHave('Sunset', 'Thu, 05 Dec 2030 00:00:00 GMT')
    const notice = '</>; rel="deprecation"; type="text/html"'
    response.shouldHave('Link', `<${pets}>; rel="successor-version", ${notice}`)
  })
})
