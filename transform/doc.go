// Package transform turns a stored image into the output pixels of a training batch. A [Spec] is a list of operations
// with torchvision's names, parameters and results. An [Engine] applies it to one image at a time: it decodes only the
// necessary part, and writes the finished pixels to their destination.
//
// Results are, bit for bit, those of torchvision's transforms on Pillow images (Image.open(f).convert("RGB")): of
// Pillow 13, or of Pillow 9.4 to 12.1, as each resize says ([Resize].Resampler). Random parameters come from a
// generator keyed by seed, epoch, sample and repetition ([NewRNG]), so they do not depend on the worker or on the order
// of arrival. Their distributions are torchvision's. The draws are reported ([Params]) and can be replayed.
//
// # Operations
//
// An operation is a struct with a method apply, which draws and does the work. Tags of its fields declare the parameters with their
// defaults in JSON, which are torchvision's (declare.go). Reading, checking and writing them, the table in docs/transforms.md and the names
// that servers give to clients follow from the tags. An operation that changes the size of images, draws nothing, needs further checks or
// precomputes tables has a method for that, too (operations.go). To add one, write the struct, a line in the list of operations.go, and a
// test. Parsing, checking and the engine do not know operations by name.
//
// Operations work on a canvas. It is lazy: crops, flips and one resize are gathered and done in one pass over the remaining pixels. That is
// why Resize and CenterCrop of a JPEG decode only a part of it. The kinds of operation use it like this:
//
//   - Geometry by rectangles (crops, padding): canvas.crop, canvas.resize, canvas.flip. Nothing is computed yet.
//   - Colours of single pixels: canvas.recolour. They wait until it is known which pixels are shown, unless a resize or borders
//     come before.
//   - Affine maps, vertical flips, adjustments by the levels of the whole image: canvas.change executes the gathered work, so that
//     the image is in memory. It postpones the change until it knows whether the result goes to the batch. Adjustments may change
//     pixels in place; maps fill the pixels outside the source with a colour.
//   - A blur, padding: canvas.redraw does the same, but the result is written at once to the other of the engine's two
//     scratch images.
//   - A policy, RandomApply, RandomChoice: an operation that holds operations, read and checked like the list itself. Its apply
//     draws, and applies the drawn ones to the same canvas. The others cost nothing and do not interrupt the pass.
//   - Several results (FiveCrop): a severalOp makes as many views of its list as it has results.
//   - Views are not operations but several Specs of one stored image, each with its own canvas and its own RNG, keyed by
//     the view. As no canvas reads a pixel before it must, the region that each needs is known before the first
//     is decoded.
//
// The engine reuses its canvas for the next image, and operations are immutable, so nothing is allocated for a sample.
// An operation's prepare computes logarithms, tables and lists once.
package transform
