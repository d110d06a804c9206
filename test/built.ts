// The petstore for other processes than that of a test.
import { bundle } from './bundle.ts'

const folder = bundle(
  ['src/main.ts', 'src/index.ts'],
  ['src/cli/demo.json', 'src/api/page.html', 'src/api/openapi.json'],
)

/** What a user imports. */
export const INDEX: string = `${folder}/index.mjs`
/** The command that a user runs. */
export const PETSTORE: readonly string[] = [process.execPath, `${folder}/main.mjs`]
