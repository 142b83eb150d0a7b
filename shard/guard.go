package shard

import (
	"fmt"
	"runtime/debug"
	"unsafe"
)

// Guard calls do, and returns its error. A panic in do becomes a [*PanicError], including a fault of a mapped file, truncated or on a
// failed disk.
func Guard(do func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{Value: p, Stack: debug.Stack()}
		}
	}()
	return do()
}

// A PanicError is a panic within [Guard].
type PanicError struct {
	Value any // value passed to panic
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.Value, e.Stack) }

// Fault returns an error that describes a fault in memory mapped from a file; nil if the panic was anything else.
func (e *PanicError) Fault(memory []byte) error {
	fault, ok := e.Value.(interface {
		error
		Addr() uintptr
	})
	if !ok || cap(memory) == 0 {
		return nil
	}
	start := uintptr(unsafe.Pointer(unsafe.SliceData(memory)))
	if fault.Addr() < start || fault.Addr() >= start+uintptr(cap(memory)) {
		return nil
	}
	return fmt.Errorf("byte %d of the mapped record cannot be read: the file was cut short, or its disk failed", fault.Addr()-start)
}
