// All rules, in the process that main.ts starts.
import './contract.ts'
import './http.ts'
import './decisions.ts'
import { refuseUnknownNames } from './suite.ts'

refuseUnknownNames()
