// Loaded before every test file by scripts/test.ts: all property tests of a run start from one seed. A plain `npm test` is
// the same twice; `GALATEA_SEED=random npm test` explores, and prints the seed that repeats it.

import fc from 'fast-check'

fc.configureGlobal({ ...fc.readConfigureGlobal(), seed: Number(process.env['GALATEA_SEED']) })
