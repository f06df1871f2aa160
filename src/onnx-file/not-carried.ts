/** What is said of a tensor that is a list or a map. skl2onnx gives classifiers such an output unless it is told otherwise. */
export const notCarried = (name: string, typeText: string): string =>
  `'${name}' is of type ${typeText}, which the protocol cannot carry; export the model with plain tensors ` +
  "(skl2onnx: to_onnx(model, X, options={'zipmap': False}))"
