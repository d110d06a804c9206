import { PETSTORE } from './built.ts'
import { testCrashes } from './crash.ts'

testCrashes(PETSTORE, 4)
