// Package transform turns a stored image into the output pixels of a training batch. A [Spec] is a list of operations
// with torchvision's names, parameters and results; an [Engine] applies it to one image at a time, decoding no more of
// the image than the result needs, and writes the finished pixels where they belong.
//
// Results are, bit for bit, those of torchvision's transforms on Pillow images (Image.open(f).convert("RGB")): of
// Pillow 13, or of Pillow 9.4 to 12.3, as each resize says ([Resize].Resampler). Random parameters come from a generator
// keyed by seed, epoch, sample and repetition ([NewRNG]), so they depend neither on the worker nor on the order of arrival; their
// distributions are torchvision's. The draws are reported ([Params]) and can be replayed.
//
// # Operations
//
// An operation is a struct whose fields' tags declare its parameters (declare.go says how), and a method apply that draws and does
// the work. Reading, checking and writing parameters, the table in docs/transforms.md and the schema that servers give to
// clients follow from the declaration. An operation that changes the size of images, draws nothing, or needs more checks or
// something computed in advance has a method for that, too (operations.go). To add one, write that, its line in the list of
// operations.go, and a test; parsing, checking and the engine know none by name.
//
// Operations work on a canvas. It is lazy: crops, flips and one resize are gathered and done in one pass over the pixels
// that remain, which is why Resize and CenterCrop of a JPEG decode a part of it only. What the kinds of operation ask of
// it:
//
//   - Geometry by rectangles (crops, padding): canvas.crop, canvas.resize, canvas.flip. Nothing is computed yet.
//   - Colour, affine maps, vertical flips: canvas.change does what has been gathered, so that the image is one in memory, and puts the work off
//     until it is known whether its result goes to the batch or is worked on. Adjustments may change pixels where they are; what
//     lies outside a map has the fill that is the operation's parameter.
//   - A blur, padding: canvas.redraw likewise, but the result is written to the other of the engine's two images at once, from which the
//     canvas goes on.
//   - A policy, RandomApply, RandomChoice: an operation that holds operations, read and checked like the list itself. Its apply
//     draws, and calls apply of those that are to be done on the canvas it was given. What is not drawn asks for nothing, so it
//     costs nothing and keeps the pass whole.
//   - Several results (FiveCrop): an operation that is a severalOp, of which a list makes as many views.
//   - Views are not operations but several Specs of one stored image, each with a canvas and an RNG of its own, keyed by
//     the view. As no canvas reads a pixel before it must, what each needs of the stored image is known before the first
//     is decoded.
//
// The canvas is the engine's and is used again for the next image, and operations are immutable, so nothing is allocated
// for a sample. What an operation needs in advance (logarithms, tables, a policy's list) its prepare computes once.
package transform
