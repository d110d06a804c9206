/**
 * Modules of node, as `require` gives them. An `import` reads all that they export, and thereby loads what nobody asked for: on
 * Node 26, node:http would load undici, node:fs what fs/promises needs, and node:util what compares texts.
 */
export const http: typeof import('node:http') = process.getBuiltinModule('node:http')
export const crypto: typeof import('node:crypto') = process.getBuiltinModule('node:crypto')
export const fs: typeof import('node:fs') = process.getBuiltinModule('node:fs')
export const util: typeof import('node:util') = process.getBuiltinModule('node:util')
