'use strict'
// Plain old JavaScript: any Node must be able to read it.
const { node } = process.versions
const [major, minor] = node.split('.').map(Number)
const isBefore = (otherMajor, otherMinor) =>
  major < otherMajor || (major === otherMajor && minor < otherMinor)

/** The oldest version that works: 21 and the first of 22 lack what 20.19 has. */
const needed = isBefore(20, 19) || major === 20 ? '20.19' : '22.2'
const [neededMajor, neededMinor] = needed.split('.').map(Number)

/** What is wrong with the version of Node; undefined if it is recent enough. */
exports.problem = isBefore(neededMajor, neededMinor)
  ? 'petstore-server needs Node ' + needed + ' or later; this is ' + node
  : undefined

/** Whether this Node runs TypeScript as it stands. */
exports.runsTypeScript = !isBefore(22, 18)
