// Sources as the build bundles them, for processes that tests start: tsx would take each of them a
// quarter of a second of CPU time.
import { cpSync } from 'node:fs'
import { basename } from 'node:path'
import { buildSync } from 'esbuild'
import { folderOf } from './support.ts'

/** Bundles each entry into `NAME.mjs`, beside the data that they read. Returns their folder. */
export function bundle(entryPoints: string[], data: string[]): string {
  const folder = folderOf()
  for (const file of data) cpSync(file, `${folder}/${basename(file)}`)
  const target = { platform: 'node', target: 'node20.19', format: 'esm' } as const
  const outExtension = { '.js': '.mjs' }
  buildSync({ entryPoints, outdir: folder, outExtension, bundle: true, ...target })
  return folder
}
