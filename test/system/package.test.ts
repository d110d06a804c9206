// The package as its users install it.
import assert from 'node:assert/strict'
import { execSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { before, test } from 'node:test'
import { folder, install, must, pack, run } from './consumer.ts'

const PACKAGES = ['typescript@7.0.2', 'vitest@5.1.2', 'jsdom@31.0.1', 'happy-dom@21.0.4']
const JEST = ['jest@30.5.2', 'jest-environment-jsdom@30.5.2']
const project = `${folder}/project`

const BODY = `
async function run() {
  const petstore = await startPetstore({ pets: [{ name: 'Rex', categoryId: 2n ** 63n - 1n }] })
  const response = await fetch(\`\${petstore.url}/pets\`, { headers: petstore.headers })
  console.log(await response.text())
  await petstore.close()
}
run()`

const TYPED = `
import { startPetstore } from 'petstore-server'
import type { Fault, Petstore, RecordedRequest, StartOptions, Store } from 'petstore-server'
export const fault: Fault = { operation: 'createPet', hangUp: 'halfway', done: true }
export const options: StartOptions = { port: undefined, pets: [{ name: 'Rex', categoryId: 1n }] }
// @ts-expect-error: no such status
export const wrong: StartOptions = { pets: [{ name: 'Rex', categoryId: 1, status: 'gone' }] }
export async function requests(store: Store): Promise<RecordedRequest[]> {
  const petstore: Petstore = await startPetstore({ ...options, store })
  petstore.inject(fault)
  return petstore.waitForRequests(1, { operation: 'createPet', status: null })
}`

const FAKED = `
import { startPetstore } from 'petstore-server'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'

beforeEach(() => vi.useFakeTimers())
afterEach(() => vi.useRealTimers())

test('a fake', async () => {
  const petstore = await startPetstore({ pets: [{ name: 'Rex', categoryId: 1 }], cors: '*' })
  petstore.inject({ operation: 'listPets', delay: 20 })
  petstore.inject({ operation: 'listPets', status: 503 })
  const list = () => fetch(petstore.url + '/pets', { headers: petstore.headers })
  expect(await (await list()).json()).toEqual(petstore.pets)
  expect((await list()).status).toBe(503)
  const waiting = petstore.waitForRequests(3, { operation: 'listPets', timeout: 20 })
  await expect(waiting).rejects.toThrow('503 injected_fault')
  expect(await petstore.close(20)).toBe(0)
})`

const JESTED = `
const { startPetstore } = require('petstore-server')

test('a fake', async () => {
  const petstore = await startPetstore()
  petstore.inject({ operation: 'getPet', times: 2, status: 503 })
  expect(petstore.pendingFaults).toHaveLength(1)
  await petstore.close()
})`

before(() => {
  const files = {
    'package.json': '{ "private": true }',
    'use.mjs': `import { startPetstore } from 'petstore-server'${BODY}`,
    'use.cjs': `const { startPetstore } = require('petstore-server')${BODY}`,
    'typed.mts': TYPED,
    'typed.cts': TYPED,
    'typed.ts': TYPED,
    'faked.test.mjs': FAKED,
    'jested.test.cjs': JESTED,
  }
  mkdirSync(project)
  for (const [name, text] of Object.entries(files)) writeFileSync(`${project}/${name}`, text)
  install(project, pack(), ...PACKAGES, ...JEST)
})

test('it has what is built and its documents, and depends on nothing', () => {
  const list = (what: string) => execSync(`git ls-files ${what}`, { encoding: 'utf8' }).split('\n')
  const built = list('src').flatMap((path) => {
    const name = path.replace('src', 'dist')
    return name.endsWith('.ts') ? [name.replace('.ts', '.js'), name.replace('.ts', '.d.ts')] : name
  })
  const others = list('package.json README.md LICENSE CHANGELOG.md docs')
  const wanted = [...built, ...others].filter(Boolean).sort()
  const packed = must(folder, 'tar -tzf *.tgz').replaceAll('package/', '').trim().split('\n')
  assert.deepEqual(packed.sort(), wanted)
  const manifest = readFileSync('package.json', 'utf8')
  assert.doesNotMatch(manifest, /^ {2}"(peer|optional|bundled?)?dependencies"/im)
})

test('npm pack fails where nothing is built, and scripts are switched off', () => {
  const clone = `${folder}/clone`
  mkdirSync(clone)
  must('.', `cp -a package.json .npmignore README.md LICENSE CHANGELOG.md docs ${clone}`)
  for (const npm of ['npm@10', 'npm@11']) {
    const { status, output } = run(clone, `npx --yes ${npm} pack --ignore-scripts`)
    assert.notEqual(status, 0)
    assert.match(output, /ENOENT/)
  }
})

for (const node of [20, 26]) {
  test(`import and require load it on Node ${node}`, () => {
    const printed = '[{"id":1,"name":"Rex","categoryId":9223372036854775807}]\n'
    for (const file of ['use.mjs', 'use.cjs'])
      assert.equal(must(project, `node ${file}`, node), printed)
  })
}

test('its types are complete without @types/node', () => {
  const tsc = 'npx tsc --noEmit --strict --exactOptionalPropertyTypes --skipLibCheck false'
  for (const lib of ['--target es2022 --lib es2022', '--target esnext']) {
    must(project, `${tsc} ${lib} --module nodenext typed.mts typed.cts`)
    must(project, `${tsc} ${lib} --module esnext --moduleResolution bundler typed.ts`)
  }
})

for (const environment of ['node', 'jsdom', 'happy-dom']) {
  test(`a fake runs in Vitest, environment ${environment}, with fake timers`, () => {
    const output = must(project, `npx vitest run --environment ${environment} faked`, 26)
    assert.match(output, /Tests +1 passed/)
  })
}
for (const environment of ['node', 'jsdom']) {
  test(`require loads it in Jest, environment ${environment}`, () => {
    const flag = 'NODE_OPTIONS=--experimental-vm-modules'
    const output = must(project, `${flag} npx jest --env ${environment} jested`, 26)
    assert.match(output, /Tests: +1 passed/)
  })
}

test('it has a command', () => {
  assert.equal(must(project, 'npx petstore-server --version'), '1.0.0\n')
})
