// Takes the place of a package that the install script of onnxruntime-node asks first. The script downloads CUDA libraries,
// which nobody here uses, and fails where only the registry can be reached. npm 11 does not run it (`allowScripts`); older
// versions do, and this ends it.

exports.bootstrap = () => process.exit(0)
