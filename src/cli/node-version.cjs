'use strict'
// Plain old JavaScript: any Node must be able to read it.
const { node } = process.versions
const [major, minor] = node.split('.').map(Number)
const isOld = major < 20 || (major === 20 && minor < 19)

/** What is wrong with the version of Node; undefined if it is recent enough. */
exports.problem = isOld ? 'petstore-server needs Node 20.19 or later; this is ' + node : undefined

/** Whether this Node runs TypeScript as it stands. */
exports.runsTypeScript = major > 22 || (major === 22 && minor >= 18)
