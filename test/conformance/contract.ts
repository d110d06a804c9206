// The rules of the interface that take more than a transcript.
import { STATUSES } from './response.ts'
import { atLeast, client, level, NAME, rule } from './suite.ts'

const post = (members: string) => ({ ask: 'POST /pets', body: `{"name":"${NAME}",${members}}` })

level('contract', () => {
  rule('Endpoints: the base address ends in /v1', async () => {
    const response = await client.ask('GET /pets')
    response.should('at an address that ends in /v1', client.base.pathname.endsWith('/v1'))
  })

  rule(
    'Add an animal, rule 3: its id is assigned by the service, and by it it is got',
    async () => {
      const { pet } = await client.ask(post('"categoryId":1'))
      const response = await client.ask(post(`"categoryId":1,"id":${pet.id}`))
      if (response.status !== 400) response.should('with another id', response.pet.id !== pet.id)
      const got = await client.ask(`GET /pets/${pet.id}`)
      got.shouldEqual(pet, got.json)
    },
  )

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
        const matching = all.filter((pet) => pet.status === status)
        if (all.length < 100) response.shouldEqual(matching, response.json)
      }
    },
  )

  rule('List animals, rules 2 and 3: `limit` counts the animals with the `status`', async () => {
    for (const { status } of (await atLeast(1)).filter((pet) => pet.status).slice(-2)) {
      const response = await client.ask(`GET /pets?limit=1&status=${status}`)
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
})
