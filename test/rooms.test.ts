import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, posix, sep } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

/** Modules of node, which every file may import. */
const BUILTINS = 'builtins.ts'

/** The table of rooms: a file belongs to the first that its path begins with, and imports from these only. */
const ROOMS: [room: string, mayImport: readonly string[]][] = [
  ['main.ts', ['cli.ts']],
  ['index.ts', ['petstore.ts', 'options.ts', 'testing/', 'http/', 'pets/']],
  // These five are the executable.
  ['cli.ts', ['version.ts', 'config.ts', 'settings.ts', 'values.ts', 'petstore.ts', 'core.ts', 'http/', 'pets/']],
  ['config.ts', ['flags.ts', 'settings.ts', 'values.ts', 'pets/']],
  ['settings.ts', ['flags.ts', 'values.ts', 'options.ts', 'rules.ts', 'http/', 'pets/']],
  ['flags.ts', ['values.ts']],
  ['values.ts', ['rules.ts', 'http/', 'pets/']],
  ['petstore.ts', ['core.ts', 'options.ts', 'rules.ts', 'testing/', 'http/', 'pets/']],
  ['core.ts', ['options.ts', 'api/', 'testing/', 'http/', 'pets/']],
  ['options.ts', ['rules.ts', 'http/', 'pets/']],
  ['rules.ts', []],
  ['version.ts', []],
  [BUILTINS, []],
  ['api/', ['api/', 'version.ts', 'http/', 'pets/']],
  ['testing/', ['testing/', 'rules.ts', 'http/', 'pets/']],
  ['http/', ['http/']],
  ['pets/', ['pets/']],
]

/** The text of every file, by its path below src/ with forward slashes. */
type Sources = ReadonlyMap<string, string>

function readSources(): Sources {
  const folder = join(dirname(fileURLToPath(import.meta.url)), '..', 'src')
  const paths = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((path) =>
    /\.[cm]?[jt]sx?$/.test(path),
  )
  return new Map(paths.map((path) => [path.split(sep).join('/'), readFileSync(join(folder, path), 'utf8')]))
}

// Both are told from prose by where prettier puts them: a statement begins its line, and a line of a comment with a star.
const COMMENT_LINE = /^\s*(?:\/\/|\/?\*).*$/gm
const STATIC_IMPORT = /^(?:import|export)\b(?:[^'"`=()]*?\bfrom)?\s*(['"])([^'"\n]+)\1/gm
const DYNAMIC_IMPORT = /(?<![\w.])(?:import|require|createRequire)\s*\(\s*(?:(['"`])([^'"`\n]*)\1)?/g

/** What a file imports, by specifier; an import whose specifier is not written out counts as `(computed)`. */
function importsOf(source: string): string[] {
  const code = source.replace(COMMENT_LINE, '')
  const found = [...code.matchAll(STATIC_IMPORT), ...code.matchAll(DYNAMIC_IMPORT)]
  return found.map(([, , specifier]) => specifier ?? '(computed)')
}

/** The path below src/ that a relative specifier names; undefined for a built-in or a package. */
function resolve(from: string, specifier: string): string | undefined {
  return /^\.{0,2}\//.test(specifier) ? posix.join(posix.dirname(from), specifier) : undefined
}

/** Every breach of the table of rooms, as a sentence. */
function breaches(sources: Sources): string[] {
  const found: string[] = []
  for (const [path, source] of sources) {
    const [, mayImport] = ROOMS.find(([room]) => path.startsWith(room)) ?? []
    if (mayImport === undefined) {
      found.push(`${path} is in no room`)
      continue
    }
    for (const specifier of importsOf(source)) {
      const target = resolve(path, specifier)
      if (target === undefined) {
        if (!specifier.startsWith('node:')) found.push(`${path} imports ${specifier}, which is no built-in of node`)
      } else if (!sources.has(target)) found.push(`${path} imports ${specifier}, which is not a file of src`)
      else if (target !== BUILTINS && !mayImport.some((room) => target.startsWith(room)))
        found.push(`${path} may not import ${target}`)
    }
    if (path === 'index.ts' && !onlyReExports(source)) found.push('index.ts does more than to re-export')
    if (path.startsWith('api/')) {
      for (const [name] of source.matchAll(/\b(?:IncomingMessage|ServerResponse)\b/g)) {
        found.push(`${path} knows ${name}`)
      }
    }
  }
  return found
}

function onlyReExports(source: string): boolean {
  const statements = /^export (?:type )?(?:\{[^{}]*\}|\*(?: as \w+)?) from '[^'\n]+';?$/gm
  return source.replace(COMMENT_LINE, '').replace(statements, '').trim() === ''
}

/** An import cycle as the paths on it, the first again at the end; undefined where there is none. */
function findCycle(sources: Sources): string[] | undefined {
  const done = new Set<string>()
  function visit(path: string, way: readonly string[]): string[] | undefined {
    if (way.includes(path)) return [...way.slice(way.indexOf(path)), path]
    if (done.has(path)) return undefined
    done.add(path)
    for (const specifier of importsOf(sources.get(path) ?? '')) {
      const target = resolve(path, specifier)
      const cycle = target === undefined ? undefined : visit(target, [...way, path])
      if (cycle !== undefined) return cycle
    }
    return undefined
  }
  for (const path of sources.keys()) {
    const cycle = visit(path, [])
    if (cycle !== undefined) return cycle
  }
  return undefined
}

test('every file under src/ imports only what the table of rooms allows', () => {
  assert.deepEqual(breaches(readSources()), [])
})

test('no file under src/ imports itself, on whatever way', () => assert.equal(findCycle(readSources()), undefined))

test('the check reads every file, and every import of those that it is about', () => {
  const sources = readSources()
  for (const path of ['main.ts', 'index.ts', 'api/operations.ts', 'http/server.ts', 'pets/json.ts']) {
    assert.ok(importsOf(sources.get(path) ?? '').length > 0, path)
  }
  // Another way to find them: a name of a file in quotes stands nowhere but in an import.
  for (const [path, source] of sources) {
    const names = [...source.replace(COMMENT_LINE, '').matchAll(/['"](\.{1,2}\/[^'"\n]+\.ts)['"]/g)].map(
      ([, name]) => name,
    )
    const relative = importsOf(source).filter((specifier) => specifier.startsWith('.'))
    assert.deepEqual(names.toSorted(), relative.toSorted(), path)
  }
})

const STORE = ['pets/store.ts', 'export const store = 1'] as const
const REPLY = ['http/reply.ts', 'export const reply = 1'] as const

const BREACHES: [what: string, files: (readonly [path: string, source: string])[], found: string][] = [
  [
    'src/pets imports src/http',
    [REPLY, ['pets/pet.ts', "import { reply } from '../http/reply.ts'"]],
    'pets/pet.ts may not import http/reply.ts',
  ],
  [
    'src/pets imports a type of src/http',
    [REPLY, ['pets/pet.ts', "import type { Reply } from '../http/reply.ts'"]],
    'pets/pet.ts may not import http/reply.ts',
  ],
  [
    'src/pets imports a type of src/http where it uses it',
    [REPLY, ['pets/pet.ts', "export type Reply = import('../http/reply.ts').Reply"]],
    'pets/pet.ts may not import http/reply.ts',
  ],
  [
    'src/http imports src/pets over several lines',
    [STORE, ['http/server.ts', "import {\n  store,\n  type Store,\n} from '../pets/store.ts'"]],
    'http/server.ts may not import pets/store.ts',
  ],
  [
    'src/http re-exports src/pets',
    [STORE, ['http/server.ts', "export * from '../pets/store.ts'"]],
    'http/server.ts may not import pets/store.ts',
  ],
  [
    'src/http imports src/pets for its effects',
    [STORE, ['http/server.ts', "import '../pets/store.ts'"]],
    'http/server.ts may not import pets/store.ts',
  ],
  [
    'src/http imports src/pets while it runs',
    [STORE, ['http/server.ts', "const { store } = await import('../pets/store.ts')"]],
    'http/server.ts may not import pets/store.ts',
  ],
  [
    'src/http imports src/api',
    [
      ['api/routes.ts', ''],
      ['http/server.ts', "import { routes } from '../api/routes.ts'"],
    ],
    'http/server.ts may not import api/routes.ts',
  ],
  [
    'src/api imports src/testing',
    [
      ['testing/faults.ts', ''],
      ['api/routes.ts', "import { faults } from '../testing/faults.ts'"],
    ],
    'api/routes.ts may not import testing/faults.ts',
  ],
  [
    'src/testing imports src/api',
    [
      ['api/routes.ts', ''],
      ['testing/faults.ts', "import { routes } from '../api/routes.ts'"],
    ],
    'testing/faults.ts may not import api/routes.ts',
  ],
  [
    'src/petstore.ts imports the executable',
    [
      ['config.ts', ''],
      ['petstore.ts', "import { readConfig } from './config.ts'"],
    ],
    'petstore.ts may not import config.ts',
  ],
  [
    'src/main.ts imports more than src/cli.ts',
    [
      ['petstore.ts', ''],
      ['main.ts', "import { startPetstore } from './petstore.ts'"],
    ],
    'main.ts may not import petstore.ts',
  ],
  [
    'a file imports src/main.ts',
    [
      ['main.ts', ''],
      ['cli.ts', "import './main.ts'"],
    ],
    'cli.ts may not import main.ts',
  ],
  [
    'a file imports src/index.ts',
    [
      ['index.ts', ''],
      ['cli.ts', "import { startPetstore } from './index.ts'"],
    ],
    'cli.ts may not import index.ts',
  ],
  [
    'a file imports a package',
    [['http/server.ts', "import express from 'express'"]],
    'http/server.ts imports express, which is no built-in of node',
  ],
  [
    'a file imports a built-in without node:',
    [['http/server.ts', "import { createServer } from 'http'"]],
    'http/server.ts imports http, which is no built-in of node',
  ],
  [
    'a file requires a package',
    [['http/server.ts', "const express = require('express')"]],
    'http/server.ts imports express, which is no built-in of node',
  ],
  [
    'a file imports what a variable names',
    [['http/server.ts', 'const room = await import(name)']],
    'http/server.ts imports (computed), which is no built-in of node',
  ],
  [
    'a file imports from outside src',
    [['http/server.ts', "import { start } from '../../test/support.ts'"]],
    'http/server.ts imports ../../test/support.ts, which is not a file of src',
  ],
  ['a file is in no room', [['helpers/strings.ts', '']], 'helpers/strings.ts is in no room'],
  [
    'src/index.ts holds code',
    [STORE, ['index.ts', "export { store } from './pets/store.ts'\nexport const version = 1"]],
    'index.ts does more than to re-export',
  ],
  [
    'src/index.ts imports',
    [STORE, ['index.ts', "import { store } from './pets/store.ts'\nexport { store }"]],
    'index.ts does more than to re-export',
  ],
  [
    'an operation knows IncomingMessage',
    [['api/operations.ts', "import type { IncomingMessage } from 'node:http'"]],
    'api/operations.ts knows IncomingMessage',
  ],
  [
    'an operation knows ServerResponse',
    [['api/operations.ts', "export function f(res: import('node:http').ServerResponse) {}"]],
    'api/operations.ts knows ServerResponse',
  ],
]

for (const [what, files, found] of BREACHES) {
  test(`the check finds it when ${what}`, () => assert.deepEqual(breaches(new Map(files)), [found]))
}

test('the check passes what the table allows, and prose that looks like an import', () => {
  const sources = new Map([
    STORE,
    REPLY,
    [
      'pets/pet.ts',
      "import { randomUUID } from 'node:crypto'\nimport { store } from './store.ts'\nexport const from = 'x'",
    ],
    ['api/operations.ts', "import { reply } from '../http/reply.ts'\nimport { store } from '../pets/store.ts'"],
    [
      'http/log.ts',
      "/**\n * import { store } from '../pets/store.ts'\n */\n// import 'express'\nexport const a = 'from b'",
    ],
    [
      'index.ts',
      "/** The face. */\nexport type { Reply } from './http/reply.ts'\nexport {\n  store,\n} from './pets/store.ts'\n",
    ],
  ])
  assert.deepEqual(breaches(sources), [])
  assert.equal(findCycle(sources), undefined)
})

test('the check finds a cycle, of types too, and of one file', () => {
  const cycle = new Map([
    ['cli.ts', "import './http/a.ts'"],
    ['http/a.ts', "import type { B } from './b.ts'"],
    ['http/b.ts', "export { c } from './c.ts'"],
    ['http/c.ts', "import { a } from './a.ts'"],
  ])
  assert.deepEqual(findCycle(cycle), ['http/a.ts', 'http/b.ts', 'http/c.ts', 'http/a.ts'])
  assert.deepEqual(findCycle(new Map([['http/a.ts', "import './a.ts'"]])), ['http/a.ts', 'http/a.ts'])
})
