import { readdirSync, readFileSync } from 'node:fs'

const ROOT = new URL('../', import.meta.url)

/** The documents, by their paths. */
export const DOCUMENTS: readonly string[] = [
  ...readdirSync(ROOT).filter((name) => name.endsWith('.md')),
  ...readdirSync(new URL('docs/', ROOT), { encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name}`),
]

export interface Block {
  language: string
  code: string
}

export function read(path: string): string {
  return readFileSync(new URL(path, ROOT), 'utf8')
}

/** The code blocks of a document, in their order; of one chapter of it, if one is given. */
export function blocksOf(path: string, chapter?: string): Block[] {
  const text = read(path)
  const [part = ''] =
    chapter === undefined ? [text] : text.split(/^(?=## )/m).filter((one) => one.startsWith(`## ${chapter}\n`))
  return Array.from(part.matchAll(/^```(\w*)\n(.*?)\n```$/gms), ([, language = '', code = '']) => ({ language, code }))
}
