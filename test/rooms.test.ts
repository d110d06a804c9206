// The rooms of src/: what the files of each may import. Only petstore.ts, what launches it and cli/
// know everything.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { posix } from 'node:path'
import { test } from 'node:test'

const SRC = `${import.meta.dirname}/../src`
const KNOW_ALL = /^(?:petstore|index|main)\.ts$|^cli\//
const NODE = /^node:/

/** For files, the only ones that they may import, and of which they may import the types, too. */
const ROOMS: [files: RegExp, values: RegExp, types?: RegExp][] = [
  [/^pets\//, /^pets\/|^(?:errors|rules|clock)\.ts$/],
  [/^http\//, /^http\/|^(?:errors|clock)\.ts$/, /^pets\/store\.ts$/],
  [
    /^api\//,
    /^(?:api\/|http\/router\.ts|pets\/(?:json|pet)\.ts|errors\.ts)/,
    /^(?:pets\/store|types)\.ts$/,
  ],
  [
    /^fake\//,
    /^(?:fake\/|http\/router\.ts|pets\/(?:json|pet)\.ts|(?:errors|rules|clock)\.ts)/,
    /^(?:http\/exchange|pets\/store|types)\.ts$/,
  ],
  [/^options\.ts$/, /^(?:rules|http\/keys|pets\/pet)\.ts$/, /^(?:types|pets\/json)\.ts$/],
  [/^(?:rules|clock)\.ts$/, NODE],
  [/^errors\.ts$/, NODE, /^(?:types|http\/router)\.ts$/],
  [/^types\.ts$/, NODE, /^pets\/store\.ts$/],
]

const SOCKETS = /^node:(?:net|http)$/
const NO_SOCKETS = /^ \{ (?:isIP|validateHeaderName, validateHeaderValue) \} $/

interface Import {
  path: string // below src/, or the name of a module
  isType: boolean
  names: string
}

function importsOf(file: string): Import[] {
  const code = readFileSync(`${SRC}/${file}`, 'utf8')
  const statements = code.matchAll(/^(?:import|export)\b([^'"]*?)\bfrom '([^']+)'/gms)
  return Array.from(statements, ([, names = '', from = '']) => {
    const path = from.startsWith('.') ? posix.join(posix.dirname(file), from) : from
    return { path, isType: /^ type\b/.test(names), names }
  })
}

const files = readdirSync(SRC, { recursive: true, encoding: 'utf8' })
  .map((path) => path.replaceAll('\\', '/'))
  .filter((path) => path.endsWith('.ts'))

test('each file imports what its room may know, and no package', () => {
  for (const file of files) {
    const imports = importsOf(file)
    for (const { path } of imports) assert.match(path, /^node:|\.ts$/, file)
    if (KNOW_ALL.test(file)) continue
    const rooms = ROOMS.filter(([files]) => files.test(file))
    assert.equal(rooms.length, 1, `${file} is in a room`)
    for (const { path, isType } of imports.filter(({ path }) => !NODE.test(path))) {
      const isAllowed = rooms.some(([, values, types]) => {
        return values.test(path) || (isType && types?.test(path))
      })
      assert.ok(isAllowed, `${file} imports ${path}`)
    }
  }
})

test('only http/ has sockets', () => {
  for (const file of files.filter((path) => !KNOW_ALL.test(path) && !path.startsWith('http/'))) {
    const values = importsOf(file).filter(({ isType }) => !isType)
    for (const { path, names } of values.filter(({ path }) => SOCKETS.test(path)))
      assert.match(names, NO_SOCKETS, `${file} imports ${path}`)
  }
})
