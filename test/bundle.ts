// The petstore as the build bundles it, for processes that tests start: tsx would take each of them
// a quarter of a second of CPU time.
import { cpSync } from 'node:fs'
import { buildSync } from 'esbuild'
import { folderOf } from './support.ts'

const folder = folderOf()
for (const data of ['cli/demo.json', 'api/page.html', 'api/openapi.json'])
  cpSync(`src/${data}`, `${folder}/${data.replace(/.*\//, '')}`)
buildSync({
  entryPoints: ['src/main.ts', 'src/index.ts'],
  outdir: folder,
  outExtension: { '.js': '.mjs' },
  bundle: true,
  format: 'esm',
  platform: 'node',
  target: 'node20.19',
})

/** What a user imports. */
export const INDEX: string = `${folder}/index.mjs`
/** The command that a user runs. */
export const PETSTORE: readonly string[] = [process.execPath, `${folder}/main.mjs`]
