// Only the build reads this: esbuild puts it in place of the name that documents.ts declares.
import openapi from './openapi.json'
import page from './page.html'

export const BUNDLED_TEXTS = { 'openapi.json': openapi, 'page.html': page }
