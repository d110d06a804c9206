import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { test } from 'node:test'
import { respond } from '../../src/http/respond.ts'
import { get, listen, open } from './raw.ts'

test('keeps no response for an idle connection', async (t) => {
  const body = 'x'.repeat(10_000)
  let response: object = {}
  const server = createServer((_req, res) => {
    respond(res, { status: 200, body }, [], 75_000)
    response = res
  })
  const connection = await open(t, { url: await listen(t, server) }, get())
  assert.equal((await connection.read()).body, body)
  for (const value of Object.values(response))
    assert.ok(typeof value !== 'string' || !value.includes(body))
})
