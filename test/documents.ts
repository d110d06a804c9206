import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { promisify } from 'node:util'

export const exec: typeof execFile.__promisify__ = promisify(execFile)

const ROOT = new URL('../', import.meta.url)

export const DOCUMENTS: readonly string[] = [
  ...readdirSync(ROOT),
  ...readdirSync(new URL('docs/', ROOT), 'utf8').map((name) => `docs/${name}`),
].filter((path) => path.endsWith('.md'))

export function read(path: string): string {
  return readFileSync(new URL(path, ROOT), 'utf8')
}

/** One chapter of a document: from its heading up to the next one. */
export function chapterOf(path: string, heading: string): string {
  const chapters = read(path).split(/^(?=## )/m)
  const chapter = chapters.find((one) => one.startsWith(`## ${heading}\n`))
  assert.ok(chapter, `${path}: ${heading}`)
  return chapter
}

/** The code blocks of a document, or of one of its chapters. */
export function blocksOf(path: string, heading?: string): { language: string; code: string }[] {
  const text = heading === undefined ? read(path) : chapterOf(path, heading)
  const blocks = text.matchAll(/^```(\w*)\n(.*?)\n```$/gms)
  return Array.from(blocks, ([, language = '', code = '']) => ({ language, code }))
}

/** Runs docs/tour.md at a base address, and asserts that its commands print what it shows. */
export async function runTour(url: string, key: string): Promise<void> {
  const [, settings, ...all] = blocksOf('docs/tour.md')
  const blocks = all.filter(({ language }) => language !== 'text') // the greeting
  const shown = settings?.code ?? ''
  const here = shown.replace('http://127.0.0.1:8080/v1', url).replace('my-secret-key', key)
  assert.ok(here.includes(url) && here.includes(key))
  assert.equal(blocks.length, 2 * 4)
  for (let at = 0; at < blocks.length; at += 2) {
    const { language, code = '' } = blocks[at] ?? {}
    assert.equal(language, 'sh')
    const { stdout } = await exec('sh', ['-c', `${here}\n${code}`])
    assert.equal(stdout.replaceAll('\r', '').trim(), blocks[at + 1]?.code, code)
  }
}
