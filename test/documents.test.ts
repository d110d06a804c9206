// The documents, and the examples in the doc comments of what the package exports.
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { test } from 'node:test'
import { startPetstore } from '../src/index.ts'
import { MemoryStore } from '../src/pets/memory-store.ts'
import { send, start } from './support.ts'

const ROOT = resolve(import.meta.dirname, '..')
const PAGES = readdirSync(join(ROOT, 'docs')).filter((name) => name.endsWith('.md'))
const DOCUMENTS = ['README.md', ...PAGES.map((name) => join('docs', name))]

for (const document of DOCUMENTS) {
  test(`the relative links of ${document} lead somewhere`, () => {
    const links = [...withoutCode(read(document)).matchAll(/\]\(([^)\s]+)\)/g)]
    const relative = links.map(([, link = '']) => link).filter((link) => !/^\w+:/.test(link))
    assert.deepEqual(
      relative.filter((link) => !leadsSomewhere(document, link)),
      [],
    )
  })
}

function read(document: string): string {
  return readFileSync(join(ROOT, document), 'utf8')
}

function withoutCode(text: string): string {
  return text.replace(/^```.*?^```/gms, '').replace(/`[^`\n]*`/g, '')
}

function leadsSomewhere(document: string, link: string): boolean {
  const [path = '', anchor] = link.split('#')
  const target = path === '' ? document : join(dirname(document), path)
  if (!existsSync(join(ROOT, target))) return false
  return anchor === undefined || anchorsOf(read(target)).includes(anchor)
}

/** The anchors that GitHub gives to the headings. */
function anchorsOf(text: string): string[] {
  const headings = [...text.replace(/^```.*?^```/gms, '').matchAll(/^#+ (.*)$/gm)]
  return headings.map(([, title = '']) => {
    return title
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-')
  })
}

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
