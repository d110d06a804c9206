/**
 * Modules of node, as `require` gives them, for what is loaded at each start. An `import` reads all that they export, and
 * thereby loads what nobody asked for: on Node 26, node:http would load undici, node:fs what fs/promises needs, and node:util
 * what compares texts; node:net and node:buffer load address lists and files. And each import is resolved by itself.
 */
export const buffer: typeof import('node:buffer') = process.getBuiltinModule('node:buffer')
export const crypto: typeof import('node:crypto') = process.getBuiltinModule('node:crypto')
export const fs: typeof import('node:fs') = process.getBuiltinModule('node:fs')
export const http: typeof import('node:http') = process.getBuiltinModule('node:http')
export const net: typeof import('node:net') = process.getBuiltinModule('node:net')
export const timers: typeof import('node:timers/promises') = process.getBuiltinModule('node:timers/promises')
export const util: typeof import('node:util') = process.getBuiltinModule('node:util')
