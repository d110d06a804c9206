// The rules of the interface that take more than a transcript.
import { type Response, STATUSES } from './response.ts'
import { atLeast, client, level, NAME, rule } from './suite.ts'

const post = (members: string) => ({ ask: 'POST /pets', body: `{"name":"${NAME}",${members}}` })
const CATEGORY_IDS = [2n ** 63n - 1n, -(2n ** 63n), 2n ** 53n + 1n, 1n]
let adding: Promise<readonly Response[]> | undefined

/** Adds a pet of each status and one without, once for all rules that look at them. */
function addPets(): Promise<readonly Response[]> {
  adding ??= (async () => {
    const responses: Response[] = []
    for (const [at, categoryId] of CATEGORY_IDS.entries()) {
      const status = STATUSES[at] === undefined ? '' : `,"status":"${STATUSES[at]}"`
      responses.push(await client.ask(post(`"categoryId":${categoryId}${status}`)))
    }
    return responses
  })()
  return adding
}

level('contract', () => {
  rule('Endpoints: the base address ends in /v1', async () => {
    const response = await client.ask('GET /pets')
    response.should('at an address that ends in /v1', client.basePath.endsWith('/v1'))
  })

  rule('Add an animal, 201: the body is the new Animal, with its id', async () => {
    for (const response of await addPets()) {
      response.shouldBe('201')
      response.shouldEqual(NAME, response.pet.name)
    }
  })

  rule('NewPet: `categoryId` is an int64, kept to the last digit', async () => {
    for (const [at, response] of (await addPets()).entries())
      response.shouldEqual(CATEGORY_IDS[at], response.pet.categoryId)
  })

  rule('NewPet: `status` is available, pending or sold, or left out', async () => {
    for (const [at, response] of (await addPets()).entries())
      response.shouldEqual(STATUSES[at] ?? response.pet.status, response.pet.status)
  })

  rule('Animal: every `id` is assigned once', async () => {
    const seen = new Set<bigint>()
    for (const response of await addPets()) {
      response.should('with another id', !seen.has(response.pet.id))
      seen.add(response.pet.id)
    }
  })

  rule('Add an animal, rule 3: the id is assigned by the service, not by the client', async () => {
    const id = 2n ** 62n + 1n
    const response = await client.ask(post(`"categoryId":1,"id":${id}`))
    if (response.status === 201) response.should('with another id', response.pet.id !== id)
  })

  rule('Add an animal: one that was added can be fetched', async () => {
    for (const { pet } of (await addPets()).slice(2)) {
      const response = await client.ask(`GET /pets/${pet.id}`)
      response.shouldEqual(pet, response.json)
    }
  })

  rule('List animals, 200: an array of Animals as JSON, each with its own id', async () => {
    const response = await client.ask('GET /pets?limit=100')
    const ids = new Set(response.pets.map(({ id }) => id))
    response.should('without an id given twice', ids.size === response.pets.length)
  })

  rule('List animals, rule 1: without `limit` at most 20 animals are returned', async () => {
    const response = await client.ask('GET /pets')
    response.should('at most 20 pets', response.pets.length <= 20)
    await atLeast(21)
  })

  rule('Limits: the default of `limit` is 20', async () => {
    const { pets } = await client.ask('GET /pets?limit=20')
    const response = await client.ask('GET /pets')
    response.shouldEqual(pets, response.json)
  })

  rule('List animals, rule 2: at most `limit` animals are returned', async () => {
    await atLeast(2)
    for (const limit of [1, 2]) {
      const response = await client.ask(`GET /pets?limit=${limit}`)
      response.should(`${limit} pets`, response.pets.length === limit)
    }
  })

  rule(
    'List animals, rule 3: all animals with the `status` are returned, and no other',
    async () => {
      const all = await atLeast(1)
      for (const status of STATUSES) {
        const response = await client.ask(`GET /pets?limit=100&status=${status}`)
        const isSo = response.pets.every((pet) => pet.status === status)
        response.should(`only pets that are ${status}`, isSo)
        if (all.length < 100)
          response.shouldEqual(
            all.filter((pet) => pet.status === status),
            response.json,
          )
      }
    },
  )

  rule('List animals, rules 2 and 3: `limit` counts the animals with the `status`', async () => {
    const all = await atLeast(1)
    for (const { status } of all.slice(-3)) {
      const query = status === undefined ? '' : `&status=${status}`
      const response = await client.ask(`GET /pets?limit=1${query}`)
      response.should('one pet', response.pets.length === 1)
    }
  })

  rule('Get an animal, 200: the Animal with this id', async () => {
    const all = await atLeast(2)
    for (const pet of [...all.slice(0, 1), ...all.slice(-1)]) {
      const response = await client.ask(`GET /pets/${pet.id}`)
      response.shouldBe('200')
      response.shouldEqual(pet, response.json)
    }
  })

  rule(
    'Errors: `code` and `message` are strings, `status` is the HTTP status, as JSON',
    async () => {
      for (const headers of [['Authorization:'], []]) {
        const response = await client.ask({ ask: 'GET /pets/9223372036854775807', headers })
        response.shouldBe('4xx')
      }
    },
  )
})
