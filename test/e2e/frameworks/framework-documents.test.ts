// The guides of frameworks do what they say: each is run with the Python that has its framework as the reader's `python3`.

import { execFile } from 'node:child_process'
import path from 'node:path'
import { promisify } from 'node:util'
import { requireTool } from '../../tool.ts'
import { testDocument } from '../document-commands.ts'

const pytorch = await requireTool('python-pytorch')
const tensorflow = await requireTool('python-tensorflow')
const openvino = await requireTool('python-openvino')
const sklearn = await requireTool('python-sklearn')

/** A file that the reader has of a framework: the program gets its path. */
const ownFile =
  (python: string, name: string, program: string) =>
  async (folder: string): Promise<void> => {
    await promisify(execFile)(python, ['-c', program, path.join(folder, name)])
  }

const openvinoProgram = `import sys, numpy, openvino
from openvino import opset8 as ops
features = ops.parameter([-1, 4], numpy.float32, name='features')
features.output(0).set_names({'features'})
openvino.save_model(openvino.Model([ops.relu(features)], [features], 'detector'), sys.argv[1])`

const forestProgram = `import sys, skops.io
from sklearn.ensemble import RandomForestRegressor
skops.io.dump(RandomForestRegressor(2).fit([[0, 0], [1, 1]], [0, 1]), sys.argv[1])`

const programsOf = (python: string) => ({ programs: path.dirname(python) })

testDocument('docs/guide/frameworks.md', {
  ...programsOf(sklearn),
  prepare: ownFile(sklearn, 'forest.skops', forestProgram),
  answers: [/"name":"forest".*"name":"prediction"/],
})
testDocument('docs/guide/pytorch.md', {
  ...programsOf(pytorch),
  answers: [/"datatype":"FP32","shape":\[1,3\],"data":\[/],
})
testDocument('docs/guide/tensorflow.md', {
  ...programsOf(tensorflow),
  answers: [/"name":"scores".*"shape":\[1,3\],"data":\[/],
})
testDocument('docs/guide/openvino.md', {
  ...programsOf(openvino),
  prepare: ownFile(openvino, 'model.xml', openvinoProgram),
  answers: [/"name":"detector".*"name":"features"/],
})
testDocument('docs/guide/scikit-learn.md', {
  ...programsOf(sklearn),
  answers: [/"name":"label".*"data":\["setosa"\]/, /"label":"ship"/, /"\d\.\d+:0:setosa"/],
})
testDocument('docs/guide/boosted-trees.md', { ...programsOf(sklearn), answers: [/"name":"label".*"data":\[0\]/] })
