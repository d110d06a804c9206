import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { posix, sep } from 'node:path'
import { describe, test } from 'node:test'
import { read } from './documents.ts'

const ROOT = new URL('../', import.meta.url)

function filesIn(folder: string): string[] {
  return readdirSync(new URL(folder, ROOT), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.ts'))
    .map((path) => path.split(sep).join('/'))
}

function linesOf(path: string): string[] {
  return read(path).split('\n').slice(0, -1)
}

const FILES = filesIn('src/')

/** What a file imports, types too: paths below src/, and names of modules. */
function importsOf(path: string): string[] {
  const code = linesOf(`src/${path}`)
    .filter((line) => !/^\s*(?:\/\/|\/?\*)/.test(line))
    .join('\n')
  const specifiers = code.matchAll(/\b(?:from |import |import\()'([^'\n]+)'/g)
  return Array.from(specifiers, ([, specifier = '']) =>
    specifier.startsWith('.') ? posix.join(posix.dirname(path), specifier) : specifier,
  )
}

const IMPORTS = new Map(FILES.map((path) => [path, importsOf(path)]))

// Beyond the arrows of the drawing, which is compared with the imports below.
const FORBIDDEN: readonly { in: RegExp; imports: RegExp }[] = [
  { in: /^types\.ts/, imports: /^(?!(?:store|fake)-types\.ts|node:)/ },
  { in: /^(?:store|fake)-types\.ts/, imports: /^(?!node:)/ },
  { in: /^guards\.ts/, imports: /^(?!store-types\.ts|node:)/ },
  { in: /^http\//, imports: /^(?!http\/|guards\.ts|runtime\.ts|node:)/ }, // nor the types of pets
  { in: /^api\//, imports: /^node:http/ }, // an operation knows no IncomingMessage
  { in: /^pets\//, imports: /^(?!pets\/|guards\.ts|(?:store-)?types\.ts|node:)/ },
  { in: /^runtime\.ts/, imports: /^(?!node:)/ },
  {
    in: /^files\//,
    imports: /^(?!files\/|pets\/|(?:guards|runtime)\.ts|(?:store-)?types\.ts|node:)/,
  },
  { in: /^(?!fake\/|petstore\/)/, imports: /^fake\// },
  { in: /^(?!files\/|petstore\/)/, imports: /^files\// },
  { in: /^fake\//, imports: /^(?:petstore|cli)\/|^api\/(?!errors\.ts)/ },
  { in: /^rules\.ts/, imports: /^(?!guards\.ts|types\.ts|node:)/ },
  // No package.
  { in: /./, imports: /^(?!node:|[\w-]+(?:\/[\w-]+)?\.(?:ts|html|json)$)/ },
]

describe('the imports of src/', () => {
  test('are those that each room allows', () => {
    for (const [path, imports] of IMPORTS) {
      for (const rule of FORBIDDEN.filter((one) => one.in.test(path))) {
        const breaches = imports.filter((one) => rule.imports.test(one))
        assert.deepEqual(breaches, [], `${path}, by the rule for ${rule.in}`)
      }
    }
  })

  test('have no cycle', () => {
    const reached = new Set<string>()
    const visit = (path: string, way: readonly string[]) => {
      assert.ok(!way.includes(path), `${[...way, path].join(' → ')}`)
      if (reached.has(path)) return
      reached.add(path)
      for (const one of IMPORTS.get(path) ?? []) visit(one, [...way, path])
    }
    for (const path of FILES) visit(path, [])
  })

  test('are the arrows of the drawing in docs/architecture.md', () => {
    const drawn = read('docs/architecture.md').match(/(?<=^ +)[\w-]+ --> [\w-]+$/gm) ?? []
    const roomOf = (path: string) => path.replace(/\/.*|\.ts$/, '')
    const isEverywhere = (path: string) =>
      /^(?:(?:store-|fake-)?types|guards|runtime)\.ts$/.test(path)
    const arrows = new Set<string>()
    for (const [path, imports] of IMPORTS) {
      for (const one of imports) {
        if (one.startsWith('node:') || isEverywhere(one) || roomOf(one) === roomOf(path)) continue
        arrows.add(`${roomOf(path)} --> ${roomOf(one)}`)
      }
    }
    assert.deepEqual(drawn.sort(), [...arrows].sort())
  })
})

/** The length of each function: Prettier ends it where its indent comes back. */
function functionsOf(path: string): { name: string; length: number }[] {
  const lines = linesOf(path)
  return lines.flatMap((line, start) => {
    const code = line.replace(/^ *(?:(?:export|async|static|override|get|set) |\*)*/, '')
    const isMethod = /^[#\w]+(?:<[^>]*>)?\(.*\{$/.test(code)
    const isStatement = /^(?:if|for|while|switch|return|await|else)\b/.test(code)
    const opens = /^(?:function\b|constructor\()/.test(code) || line.endsWith('=> {')
    const isFunction = opens || (isMethod && !isStatement)
    if (!isFunction) return []
    const indent = /^ */.exec(line)?.[0] ?? ''
    const length = lines.slice(start + 1).findIndex((one) => one.startsWith(`${indent}}`)) + 2
    return [{ name: `${path}:${start + 1} ${line.trim()}`, length }]
  })
}

describe('the code', () => {
  test('has at most 100 columns, and no prettier-ignore in src/', () => {
    for (const folder of ['src/', 'test/']) {
      for (const path of filesIn(folder)) {
        for (const [at, line] of linesOf(folder + path).entries()) {
          assert.ok(line.length <= 100, `${folder}${path}:${at + 1}`)
        }
      }
    }
    for (const path of FILES) assert.doesNotMatch(read(`src/${path}`), /prettier-ignore/, path)
  })

  test('of src/ has at most 250 lines a file, and 40 a function', () => {
    const lengths = FILES.map((path) => linesOf(`src/${path}`).length)
    for (const [at, length] of lengths.entries()) assert.ok(length <= 250, FILES[at])
    for (const path of FILES) {
      for (const { name, length } of functionsOf(`src/${path}`)) assert.ok(length <= 40, name)
    }
  })
})
