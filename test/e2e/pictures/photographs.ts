import { globSync } from 'node:fs'
import path from 'node:path'

/** The folder of the packages of a virtual environment, by its Python. */
export const sitePackages = (python: string): string =>
  globSync(path.join(path.dirname(python), '../lib/python*/site-packages'))[0] ?? ''

/** A photograph that comes with scikit-learn. */
export const photograph = (python: string, name: string): string =>
  path.join(sitePackages(python), 'sklearn/datasets/images', name)
