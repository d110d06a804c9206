'use strict'
// The package once it is built: the other files are next to it then.
const { problem } = require('./node-version.cjs')

if (problem) throw new Error(problem)
const { connectPetstore, createPetstore, fetchClasses, startPetstore } = require('./cli.cjs')

fetchClasses() // before a test replaces them

module.exports = { connectPetstore, createPetstore, startPetstore }
