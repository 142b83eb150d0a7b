package source

import (
	"io"
	"io/fs"
	"os"
)

// A fileTree is where folders and files are: the file system, or a zip, whose members have the paths that they would have if the zip were a
// folder. A zip can be read at any place, so it needs no layouts of its own as tars do.
type fileTree interface {
	stat(path string) (fs.FileInfo, error) // links are followed
	list(path string) ([]fs.DirEntry, error)
	open(path string) (io.ReadCloser, error)
}

// fileSystem is the machine's own tree.
type fileSystem struct{}

func (fileSystem) stat(path string) (fs.FileInfo, error)   { return os.Stat(path) }
func (fileSystem) list(path string) ([]fs.DirEntry, error) { return os.ReadDir(path) }
func (fileSystem) open(path string) (io.ReadCloser, error) { return os.Open(path) }
