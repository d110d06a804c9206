import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { test } from 'node:test'

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
