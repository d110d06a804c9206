// The rooms of src/: which file may import which, and how long a file may be.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { posix, sep } from 'node:path'
import { test } from 'node:test'

const SRC = new URL('../src/', import.meta.url)
const FILES = readdirSync(SRC, { recursive: true, encoding: 'utf8' })
  .filter((path) => path.endsWith('.ts'))
  .map((path) => path.split(sep).join('/'))

/** What a file imports, statically or not, its types too: paths below src/, and names of modules. */
function importsOf(path: string): string[] {
  const code = readFileSync(new URL(path, SRC), 'utf8').replace(/^\s*(?:\/\/|\/?\*).*$/gm, '')
  return [...code.matchAll(/\b(?:from |import |import\()'([^'\n]+)'/g)].map(([, specifier = '']) =>
    specifier.startsWith('.') ? posix.join(posix.dirname(path), specifier) : specifier,
  )
}

const IMPORTS = new Map(FILES.map((path) => [path, importsOf(path)]))

const FORBIDDEN: readonly [room: RegExp, forbidden: RegExp, unless?: RegExp][] = [
  [/^pets\//, /^(?!pets\/|types\.ts|node:)/],
  [/^types\.ts/, /^(?!node:)/],
  [/^http\//, /^(?!http\/|node:)/],
  [/^api\//, /^(?!api\/|http\/|pets\/|node:(?!http))/], // an operation knows no IncomingMessage
  [/^testing\//, /^(?:api\/|main|cli|settings|petstore|index)/, /^api\/errors\.ts$/],
  [/^(?!petstore\.ts|index\.ts|testing\/)/, /^testing\//],
  [/^(?!main\.ts)/, /^cli\.ts/],
  [/^main\.ts/, /^(?!cli\.ts)/],
  [/^(?!cli\.ts)/, /^settings\.ts/],
  [/./, /^(?:main|index)\.ts$/],
  [/./, /^(?!node:|[\w-]+(?:\/[\w-]+)?\.(?:ts|html|json)$)/],
]

test('a file imports only what its room may, and no package', () => {
  for (const [path, imports] of IMPORTS) {
    for (const [room, forbidden, unless] of FORBIDDEN.filter(([room]) => room.test(path))) {
      const breaches = imports.filter((one) => forbidden.test(one) && !unless?.test(one))
      assert.deepEqual(breaches, [], `${path}, which is of ${room}`)
    }
  }
})

test('no file imports itself, on whatever way', () => {
  const reached = new Set<string>()
  const visit = (path: string, way: readonly string[]) => {
    assert.ok(!way.includes(path), `${[...way, path].join(' → ')}`)
    if (reached.has(path)) return
    reached.add(path)
    for (const one of IMPORTS.get(path) ?? []) visit(one, [...way, path])
  }
  for (const path of FILES) visit(path, [])
})

test('no file of src/ is longer than 250 lines, and all of it than 3,200', () => {
  const lines = FILES.map((path) => readFileSync(new URL(path, SRC), 'utf8').split('\n').length - 1)
  for (const [at, count] of lines.entries()) assert.ok(count <= 250, FILES[at])
  assert.ok(lines.reduce((sum, count) => sum + count, 0) <= 3_200)
})
