package shard

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"syscall"

	"github.com/imgfeed/imgfeed/internal/bytesize"
	"github.com/imgfeed/imgfeed/internal/crc32c"
	"github.com/imgfeed/imgfeed/shard/storage"
)

const (
	manifestName   = "manifest.json"
	manifestFormat = "imgshard"
	manifestTail   = "\"crc32c\": \"%08x\"\n}\n"
	manifestKey    = "\"crc32c\": \""
)

// Manifest describes a shard set. It is the file manifest.json, JSON with a checksum over itself as its last field.
type Manifest struct {
	Format      string            `json:"format"` // "imgshard"
	Version     Version           `json:"version"`
	Fingerprint string            `json:"fingerprint"`       // what is served in what order, whatever the encoding: 64 hex digits
	Content     string            `json:"content,omitempty"` // digest of the records and their encoding: 64 hex digits; "" in older sets
	Split       string            `json:"split"`
	Encoding    Encoding          `json:"encoding"`
	Samples     int               `json:"samples"`
	Partitions  int               `json:"world"`
	Seed        uint64            `json:"seed"` // seed of the order
	Classes     []string          `json:"classes"`
	Fields      Fields            `json:"fields,omitempty"` // fields of the samples beside the label
	Built       map[string]string `json:"built,omitempty"`  // how: the options of the build
	Index       *Index            `json:"index,omitempty"`  // nil: the images lie in the set
	Shards      []ShardInfo       `json:"shards"`           // shards by partition, then by number
}

// ShardInfo is what the manifest knows of one shard file.
type ShardInfo struct {
	Path      string `json:"path"` // relative to the set, with forward slashes
	Partition int    `json:"rank"`
	Samples   int    `json:"samples"`
	Bytes     int64  `json:"bytes"`
	Footer    string `json:"footer"` // CRC-32C in the file's footer, 8 hex digits: it pins the index, the keys and the header
	SHA256    string `json:"sha256"` // checksum of the whole file

	Index *ShardIndex `json:"index,omitempty"` // nil: no index
}

// A shardList is a manifest's list of shards in JSON. Its decoding ends at the first shard that no writer makes: a list of empty
// objects would take thirty times the memory of its text.
type shardList []ShardInfo

func (l *shardList) UnmarshalJSON(text []byte) error {
	return decodeList("shards", text, func(s ShardInfo) error {
		if len(s.SHA256) != 2*sha256.Size {
			return fmt.Errorf("shard %.80q has the SHA-256 %.80q, expected %d hex digits", s.Path, s.SHA256, 2*sha256.Size)
		}
		*l = append(*l, s)
		return nil
	})
}

// decodeList decodes a list in JSON, element by element, until add returns an error.
func decodeList[T any](name string, text []byte, add func(T) error) error {
	d := json.NewDecoder(bytes.NewReader(text))
	start, err := d.Token()
	if err == nil && start == nil {
		return nil
	}
	if err != nil || start != json.Delim('[') {
		return fmt.Errorf("%s is %.20q, expected a list", name, text)
	}
	for d.More() {
		var one T
		if err := d.Decode(&one); err != nil {
			return err
		}
		if err := add(one); err != nil {
			return err
		}
	}
	return nil
}

func partitionDir(partition int) string { return fmt.Sprintf("rank-%04d", partition) }

// PartitionNames names the folders of some partitions in a message, and counts those after the first few.
func PartitionNames(partitions []int) string {
	names := make([]string, len(partitions))
	for i, p := range partitions {
		names[i] = partitionDir(p)
	}
	return bytesize.Listed(names, 5)
}

func shardPath(partition, shard int) string {
	return fmt.Sprintf("%s/%05d.imgshard", partitionDir(partition), shard)
}

// encode returns the manifest's bytes. The checksum covers all that stands before its name in the file.
func (m *Manifest) encode() ([]byte, error) {
	text, err := encodeJSON(m, " ")
	if err != nil {
		return nil, fmt.Errorf("shard: encode manifest: %w", err)
	}
	body := bytes.TrimSuffix(text, []byte("\n}\n"))
	body = append(body, ",\n "...)
	return fmt.Appendf(body, manifestTail, crc32c.Checksum(body)), nil
}

// encodeJSON encodes v, and a new line, with strings and raw messages as they are.
func encodeJSON(v any, indent string) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	err := enc.Encode(v)
	return b.Bytes(), err
}

// decodeManifest reads and checks a manifest; path is for messages.
func decodeManifest(path string, data []byte) (*Manifest, error) {
	bad := func(offset int, format string, args ...any) error {
		return corrupt(path, "manifest", int64(offset), fmt.Errorf(format, args...))
	}
	var m Manifest
	jsonErr := json.Unmarshal(data, &struct {
		*Manifest
		Shards *shardList `json:"shards"`
	}{&m, (*shardList)(&m.Shards)})
	at := bytes.LastIndex(data, []byte(manifestKey))
	if at < 0 {
		if jsonErr == nil && m.Format == manifestFormat && m.Version > versionCurrent {
			return nil, &UnsupportedError{Path: path, Version: m.Version}
		}
		return nil, bad(len(data), "no checksum at the end of %d bytes: the file is cut short or was edited", len(data))
	}
	got := crc32c.Checksum(data[:at])
	if tail := fmt.Sprintf(manifestTail, got); string(data[at:]) != tail {
		var want uint32
		if _, err := fmt.Sscanf(string(data[at:]), manifestTail, &want); err != nil || want == got {
			return nil, bad(at, "ends in %.40q, expected %q", data[at:], tail)
		}
		return nil, corrupt(path, "manifest", 0, &ChecksumError{Length: int64(at), Want: want, Got: got})
	}
	if jsonErr != nil {
		return nil, bad(0, "%w", jsonErr)
	}
	if m.Format != manifestFormat {
		return nil, fmt.Errorf("shard: %s: format %q, expected %q: %w", path, m.Format, manifestFormat, ErrNotSet)
	}
	if m.Version < versionOldest || m.Version > versionCurrent {
		return nil, &UnsupportedError{Path: path, Version: m.Version}
	}
	if err := m.check(); err != nil {
		return nil, bad(0, "%w", err)
	}
	return &m, nil
}

// check says what contradicts itself in the manifest. After it, the shards of each partition are numbered from 0 in
// order, lie inside the set's folder and add up to the partition's length.
func (m *Manifest) check() error {
	switch {
	case m.Partitions < 1 || m.Partitions > PartitionsMax:
		return fmt.Errorf("%d partitions, expected 1 to %d", m.Partitions, PartitionsMax)
	case m.Samples < 0:
		return fmt.Errorf("%d samples", m.Samples)
	case len(m.Fingerprint) != 2*sha256.Size:
		return fmt.Errorf("fingerprint %.80q, expected %d hex digits", m.Fingerprint, 2*sha256.Size)
	case m.Content != "" && len(m.Content) != 2*sha256.Size:
		return fmt.Errorf("content %.80q, expected %d hex digits", m.Content, 2*sha256.Size)
	case m.Encoding.Name == "":
		return errors.New("no encoding")
	}
	if err := m.Fields.checkVersion(m.Version); err != nil {
		return err
	}
	counts := make([]int, m.Partitions)
	partition, number := 0, 0
	for i, s := range m.Shards {
		if s.Partition != partition {
			if s.Partition < partition || s.Partition >= m.Partitions {
				return fmt.Errorf("shard %d is of partition %d in a set of %d partitions, after one of partition %d",
					i, s.Partition, m.Partitions, partition)
			}
			partition, number = s.Partition, 0
		}
		if want := shardPath(partition, number); s.Path != want {
			return fmt.Errorf("shard %d has path %.80q, expected %q", i, s.Path, want)
		}
		if s.Samples < 1 || s.Samples > ShardSamplesMax || s.Bytes < footerSize {
			return fmt.Errorf("shard %s: %d samples in %d bytes", s.Path, s.Samples, s.Bytes)
		}
		if counts[partition] += s.Samples; counts[partition] > m.Samples {
			return fmt.Errorf("the shards of partition %d hold more than the set's %d samples", partition, m.Samples)
		}
		number++
	}
	for r, got := range counts {
		if want := partitionLen(m.Samples, m.Partitions, r); got != want {
			return fmt.Errorf("the shards of partition %d hold %d samples, expected %d of %d in %d partitions",
				r, got, want, m.Samples, m.Partitions)
		}
	}
	return nil
}

// numberedShard is a shard with its position in its partition.
type numberedShard struct {
	ShardInfo
	number int // number within the partition
	start  int // index of its first sample
}

// numbered returns the shards of the partitions that are here, with their positions.
func (m *Manifest) numbered(here []bool) (shards []numberedShard) {
	number, start := 0, 0
	for i, info := range m.Shards {
		if i > 0 && m.Shards[i-1].Partition != info.Partition {
			number, start = 0, 0
		}
		if here[info.Partition] {
			shards = append(shards, numberedShard{info, number, start})
		}
		number, start = number+1, start+info.Samples
	}
	return shards
}

// Class returns the name of a label's class, "" for a label without one.
func (m *Manifest) Class(label int32) string {
	if label < 0 || int(label) >= len(m.Classes) {
		return ""
	}
	return m.Classes[label]
}

// ReadManifest reads the manifest of the set in dir without opening its shards. The error wraps ErrNotSet if dir holds no set.
func ReadManifest(dir string) (*Manifest, error) {
	files, err := storage.At(dir)
	if err != nil {
		return nil, err
	}
	m, _, err := readManifest(files)
	return m, err
}

// readManifest returns a manifest and its file's bytes.
func readManifest(files storage.Storage) (m *Manifest, data []byte, err error) {
	path := storage.Join(files.String(), manifestName)
	data, err = files.ReadFile(manifestName, manifestBytesMax, func(data []byte) (err error) {
		m, err = decodeManifest(path, data)
		return err
	})
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
		err = fmt.Errorf("shard: %s: %w (no %s there)", files, ErrNotSet, manifestName)
	case errors.Is(err, storage.ErrTooLarge):
		err = corrupt(path, "manifest", manifestBytesMax, err)
	case err != nil && data != nil && !bytes.Contains(data[:min(len(data), 256)], []byte(manifestFormat)) && !hasPartitions(files):
		err = fmt.Errorf("shard: %s: %w (its %s is another program's)", files, ErrNotSet, manifestName)
	case err != nil && data == nil && storage.IsRemote(path):
		err = fmt.Errorf("shard: %w", err)
	}
	return m, data, err
}

func hasPartitions(files storage.Storage) bool {
	names, err := files.Names("")
	return err == nil && slices.ContainsFunc(names, func(name string) bool {
		number, is := strings.CutPrefix(name, "rank-")
		return is && number != "" && '0' <= number[0] && number[0] <= '9'
	})
}

// digests accumulates a set's fingerprint, SHA-256 of
//
//	"imgshard fingerprint v1" 0x00, u32 world, u32 number of classes, each class as u32 length and bytes;
//	for each sample by index: u32 length of the key, the key, i32 label; at the end u64 number of samples;
//
// and the digest of its content, SHA-256 of
//
//	"imgshard content v1" 0x00, u32 length of the encoding's name, the name, u32 length of its parameters as compact JSON, the parameters;
//	for each sample by index: u32 CRC-32C of its record.
type digests struct {
	fingerprint, content hash.Hash
	scratch              []byte
	samples              uint64
}

// appendText appends a text after its length.
func appendText(b []byte, text string) []byte {
	return append(binary.LittleEndian.AppendUint32(b, uint32(len(text))), text...)
}

func newDigests(partitions int, classes []string, e Encoding) *digests {
	b := binary.LittleEndian.AppendUint32([]byte("imgshard fingerprint v1\x00"), uint32(partitions))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(classes)))
	for _, c := range classes {
		b = appendText(b, c)
	}
	d := &digests{fingerprint: sha256.New(), content: sha256.New()}
	d.fingerprint.Write(b)
	d.content.Write(appendText(appendText([]byte("imgshard content v1\x00"), e.Name), string(compactJSON(e.Params))))
	return d
}

// add takes the next sample by index. crc is of its record.
func (d *digests) add(key string, label int32, crc uint32) {
	d.scratch = binary.LittleEndian.AppendUint32(appendText(d.scratch[:0], key), uint32(label))
	d.fingerprint.Write(d.scratch)
	d.content.Write(binary.LittleEndian.AppendUint32(d.scratch[:0], crc))
	d.samples++
}

func (d *digests) sums() (fingerprint, content string) {
	d.fingerprint.Write(binary.LittleEndian.AppendUint64(nil, d.samples))
	return hex.EncodeToString(d.fingerprint.Sum(nil)), hex.EncodeToString(d.content.Sum(nil))
}

// Identity is what people compare sets by: the first digits of the fingerprint, a point, and those of the content.
func Identity(fingerprint, content string) string {
	return fmt.Sprintf("%.12s.%.12s", fingerprint, cmp.Or(content, "unknown"))
}

// OtherContent reports whether two sets of one fingerprint are known to hold other images or fields, or to store them in another way.
func (m *Manifest) OtherContent(o *Manifest) bool {
	return m.Content != "" && o.Content != "" && m.Content != o.Content
}

// Found lists the sets in a folder.
type Found struct {
	Sets    map[string]string // the sets' folders by split, as their manifests name it
	Damaged []DamagedSet      // sets with an unreadable manifest, so even their split is unknown

	Joined map[string][]string // folders of the sets to join, by split, as FindJoined finds them
	Apart  bool                // joined sets share no class: see Join

	Client *storage.Client // reads them; nil is the default one
}

// Open opens the set of a split, or joins the sets of it. It opens a set as OpenSet does, but serves its whole partitions: a damaged one
// counts as missing, and Damaged names it. The error is OpenSet's where the manifest is damaged or no partition with samples is whole.
// Until all shards are open, Open calls say, unless nil, once a second with the number of open ones.
func (f *Found) Open(split string, say func(opened, shards int)) (*Set, error) {
	client := cmp.Or(f.Client, storage.Default)
	if f.Joined == nil {
		return openWhole(client, f.Sets[split], say)
	}
	var parts []*Set
	for _, dir := range f.Joined[split] {
		part, err := openWhole(client, dir, say)
		if err != nil {
			for _, open := range parts {
				open.Close()
			}
			return nil, err
		}
		parts = append(parts, part)
	}
	return Join(parts, f.Apart)
}

// Err joins the errors of the damaged sets; nil if all are in order.
func (f *Found) Err() error {
	var errs []error
	for _, d := range f.Damaged {
		errs = append(errs, d.Err)
	}
	return errors.Join(errs...)
}

// LabelsDiffer finds the first label with another class in others than in classes, which may be fewer. differ is false if all agree.
func LabelsDiffer(classes, others []string) (label int, differ bool) {
	for i, c := range classes {
		if i >= len(others) || others[i] != c {
			return i, true
		}
	}
	return 0, false
}

// FindSets finds the sets that data means, as FindAll does. A damaged one is an error.
func FindSets(data string) (map[string]string, error) {
	found, err := FindAll(data)
	if err = cmp.Or(err, found.Err()); err != nil {
		return nil, err
	}
	return found.Sets, nil
}

// FindAll finds the sets that data means: data itself if it is a set, otherwise the sets in the folders right below it, whatever they
// are called. Two sets of one split are an error. If it finds no set, not even a damaged one, the error wraps ErrNotSet and says what
// is there instead.
func FindAll(data string) (Found, error) { return FindIn(storage.Default, data) }

// FindIn finds sets as FindAll does. The client reaches them, and those that [Found.Open] opens.
func FindIn(client *storage.Client, data string) (Found, error) {
	found := Found{Sets: make(map[string]string), Client: client}
	opening := client.Opening()
	defer opening.End()
	if is, err := found.add(opening, data); is || err != nil {
		return found, err
	}
	files, err := opening.At(data)
	if err != nil {
		return found, err
	}
	names, err := files.Names("")
	listed := !errors.Is(err, errors.ErrUnsupported)
	if !listed {
		names, err = []string{"train/", "val/", "test/"}, nil
	}
	if err != nil {
		return found, fmt.Errorf("shard: %w", err)
	}
	var others []string
	for _, name := range names {
		if strings.HasPrefix(name, ".") { // They include the sets that a build is writing.
			continue
		}
		name, folder := strings.CutSuffix(name, "/")
		others = append(others, name)
		if !folder {
			continue
		}
		if _, err := found.add(opening, storage.Join(data, name)); err != nil {
			return found, err
		}
	}
	switch {
	case len(found.Sets)+len(found.Damaged) > 0:
	case !listed:
		return found, fmt.Errorf("shard: %s: %w, nor is train, val or test below it, "+
			"and a web server does not list other folders: name the set's own", data, ErrNotSet)
	default:
		return found, fmt.Errorf("shard: %s: %w, nor is any folder in it; it holds %s", data, ErrNotSet,
			cmp.Or(bytesize.Listed(others, 8), "nothing"))
	}
	return found, nil
}

// FindJoined finds the sets that several paths mean, each as FindIn does, to be joined split by split. A split that one path has and
// another lacks is left out; where no split is left, that is an error.
func FindJoined(client *storage.Client, paths []string) (Found, error) {
	found := Found{Sets: map[string]string{}, Joined: map[string][]string{}, Client: client}
	for _, path := range paths {
		one, err := FindIn(client, path)
		if err != nil {
			return found, err
		}
		found.Damaged = append(found.Damaged, one.Damaged...)
		for split, dir := range one.Sets {
			found.Joined[split] = append(found.Joined[split], dir)
		}
	}
	for split, dirs := range found.Joined {
		if len(dirs) == len(paths) {
			found.Sets[split] = dirs[0]
		}
	}
	if len(found.Sets)+len(found.Damaged) == 0 {
		return found, fmt.Errorf("shard: %s: %w of one split in each, only of %s",
			strings.Join(paths, ", "), ErrNotSet, strings.Join(slices.Sorted(maps.Keys(found.Joined)), ", "))
	}
	return found, nil
}

// add notes the set in dir and reports whether there is one. A folder with partitions but no manifest is a damaged set. The error may be
// that the store does not answer, before any set is found.
func (f *Found) add(opening *storage.Opening, dir string) (bool, error) {
	files, err := opening.At(dir)
	var m *Manifest
	if err == nil {
		m, _, err = readManifest(files)
	}
	if errors.Is(err, ErrNotSet) && hasPartitions(files) {
		err = corrupt(storage.Join(dir, manifestName), "manifest", 0,
			errors.New("it is missing, and there are partitions beside it: copy it too"))
	}
	switch {
	case errors.Is(err, ErrNotSet):
		return false, nil
	case storage.IsDown(err) && len(f.Sets) == 0:
		return false, err
	case err != nil:
		f.Damaged = append(f.Damaged, DamagedSet{Dir: dir, Err: err})
		return true, nil
	}
	if other, ok := f.Sets[m.Split]; ok {
		return true, fmt.Errorf("shard: %s and %s are both sets of split %q: name the one to use", other, dir, m.Split)
	}
	f.Sets[m.Split] = dir
	return true, nil
}
