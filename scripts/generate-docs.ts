// Writes the documents that are made from tables in the source: docs/reference/flags.md, metrics.md, and the table of
// parameters in config.md. `npx node scripts/generate-docs.ts`; test/docs.test.ts notices when somebody forgot.

import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { flagsDocument } from './flags-document.ts'
import { metricsDocument } from './metrics-document.ts'
import { withParametersTable } from './parameters-table.ts'

const page = (name: string): string => path.join(import.meta.dirname, '..', 'docs', 'reference', name)
writeFileSync(page('flags.md'), flagsDocument())
writeFileSync(page('metrics.md'), metricsDocument())
writeFileSync(page('config.md'), withParametersTable(readFileSync(page('config.md'), 'utf8')))
