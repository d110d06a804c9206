import { PETSTORE } from './bundle.ts'
import { testCrashes } from './crash.ts'

testCrashes(PETSTORE, 4)
