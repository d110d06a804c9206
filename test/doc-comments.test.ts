// The examples in the doc comments of what the package exports.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { startPetstore } from '../src/index.ts'
import { MemoryStore } from '../src/pets/memory-store.ts'
import { send, start } from './support.ts'

/** The examples of a file: the lines after `@example`, to the end of their comment. */
function examplesOf(file: string): string[] {
  const code = readFileSync(`${import.meta.dirname}/../src/${file}`, 'utf8')
  const found = code.matchAll(/^ *\* @example *\n?(.*?)\*\//gms)
  return Array.from(found, ([, text = '']) => text.replace(/^ *\* ?/gm, '').trim())
}

/** Runs an example with what it names. */
async function run(example: string, names: object): Promise<unknown> {
  const body = `return (async () => {${example}\n})()`
  return Reflect.apply(new Function(...Object.keys(names), body), undefined, Object.values(names))
}

test('the examples of the doc comments run', async (t) => {
  const [starting, ...more] = examplesOf('petstore.ts')
  assert.deepEqual(more, [])
  let answer = ''
  const fetchText = async (...args: Parameters<typeof fetch>) => {
    answer = await (await fetch(...args)).text()
  }
  await run(String(starting), { startPetstore, fetch: fetchText })
  assert.equal(answer, '[{"id":1,"name":"Rex","categoryId":1,"status":"sold"}]')

  const petstore = await start(t)
  const [inject, wait, ...others] = examplesOf('types.ts')
  assert.deepEqual(others, [])
  await run(String(inject), { petstore })
  const [fault] = petstore.pendingFaults
  assert.deepEqual(fault, { operation: 'createPet', times: 2, status: 503, hits: 0 })
  const waiting = run(`${wait}\nreturn first`, { petstore })
  await send(petstore, 'GET', '/v1/pets/1')
  assert.deepEqual([await waiting], petstore.requests)

  const [own, ...rest] = examplesOf('pets/store.ts')
  assert.deepEqual(rest, [])
  const openStore = () => new MemoryStore(1_000)
  const names = { startPetstore, openStore, process: { env: {} } }
  const opened: unknown = await run(`return ${own}`, names)
  assert.ok(opened instanceof Object && Symbol.asyncDispose in opened)
  await Reflect.apply(Reflect.get(opened, 'close'), undefined, [])
})
