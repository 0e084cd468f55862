package avro

import (
	"bufio"
	"bytes"
	"compress/flate"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"

	"odradek/schemas"
)

// Avro object container files, by version 1.11 of the specification: a header
// with the schema, then blocks of records, each compressed by itself.

// containerMagic begins a file.
const containerMagic = "Obj\x01"

// maxContainerBlock bounds the stated size of a block, before and after compression, so that
// a damaged file cannot exhaust memory.
const maxContainerBlock = 1 << 30

// ContainerReader reads the blocks of an Avro object container file.
type ContainerReader struct {
	Schema string // of the records, as JSON
	Codec  string // null, deflate, snappy or zstandard

	r    *bufio.Reader
	sync [16]byte
	n    int64
}

// NewContainerReader reads the header of a file.
func NewContainerReader(r io.Reader) (*ContainerReader, error) {
	c := &ContainerReader{r: bufio.NewReaderSize(r, 1<<18), Codec: "null"}
	magic := make([]byte, len(containerMagic))
	if _, err := io.ReadFull(c.r, magic); err != nil || string(magic) != containerMagic {
		return nil, errors.New("avro: not an Avro object container file: it does not begin with the bytes Obj and 1")
	}
	c.n = int64(len(magic))
	for {
		count, err := c.long()
		if err != nil {
			return nil, fmt.Errorf("avro: header of a container file: %w", err)
		}
		if count == 0 {
			break
		}
		if count < 0 { // then the size of the pairs in bytes
			count = -count
			if _, err := c.long(); err != nil {
				return nil, fmt.Errorf("avro: header of a container file: %w", err)
			}
		}
		for range count {
			name, err := c.bytes()
			if err != nil {
				return nil, fmt.Errorf("avro: header of a container file: %w", err)
			}
			value, err := c.bytes()
			if err != nil {
				return nil, fmt.Errorf("avro: header of a container file: %w", err)
			}
			switch string(name) {
			case "avro.schema":
				c.Schema = string(value)
			case "avro.codec":
				c.Codec = string(value)
			}
		}
	}
	if c.Schema == "" {
		return nil, errors.New("avro: the header of the container file has no schema")
	}
	if _, ok := decompressors[c.Codec]; !ok {
		return nil, fmt.Errorf("avro: unknown codec %q of the container file; null, deflate, snappy and zstandard are read", c.Codec)
	}
	if _, err := io.ReadFull(c.r, c.sync[:]); err != nil {
		return nil, fmt.Errorf("avro: header of a container file: %w", err)
	}
	c.n += int64(len(c.sync))
	return c, nil
}

// Position returns how many bytes of the file have been read as header and blocks.
func (c *ContainerReader) Position() int64 { return c.n }

func (c *ContainerReader) long() (int64, error) {
	var u uint64
	for shift := 0; shift < 64; shift += 7 {
		b, err := c.r.ReadByte()
		if err != nil {
			if errors.Is(err, io.EOF) && shift > 0 {
				err = io.ErrUnexpectedEOF
			}
			return 0, err
		}
		c.n++
		u |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return int64(u>>1) ^ -int64(u&1), nil
		}
	}
	return 0, errors.New("a long of more than ten bytes")
}

func (c *ContainerReader) bytes() ([]byte, error) {
	n, err := c.long()
	if err != nil {
		return nil, err
	}
	if n < 0 || n > maxContainerBlock {
		return nil, fmt.Errorf("%d bytes", n)
	}
	if n <= 1<<24 {
		b := make([]byte, n)
		m, err := io.ReadFull(c.r, b)
		c.n += int64(m)
		return b[:m], err
	}
	b, err := io.ReadAll(io.LimitReader(c.r, n)) // grows with the bytes read
	c.n += int64(len(b))
	if err == nil && int64(len(b)) < n {
		err = io.ErrUnexpectedEOF
	}
	return b, err
}

// ContainerBlock is a block as it lies in the file.
type ContainerBlock struct {
	Count int64 // records
	Data  []byte
	End   int64 // position in the file behind the block
}

// Next returns the next block, io.EOF after the last one. An error wraps
// io.ErrUnexpectedEOF where the file is cut off.
func (c *ContainerReader) Next() (b ContainerBlock, err error) {
	if b.Count, err = c.long(); err != nil {
		return b, err // io.EOF between blocks
	}
	if b.Count < 0 {
		return b, fmt.Errorf("avro: a block of %d records before byte %d of the container file", b.Count, c.n)
	}
	if b.Data, err = c.bytes(); err == nil {
		var sync [16]byte
		if _, err = io.ReadFull(c.r, sync[:]); err == nil && sync != c.sync {
			err = errors.New("its end is not marked")
		}
		c.n += int64(len(sync))
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return b, fmt.Errorf("avro: the block before byte %d of the container file: %w", c.n, err)
	}
	b.End = c.n
	return b, nil
}

// Decompress returns the records of a block. It may be called from several goroutines.
func (c *ContainerReader) Decompress(b *ContainerBlock) ([]byte, error) {
	out, err := decompressors[c.Codec](b.Data)
	if err != nil {
		return nil, fmt.Errorf("avro: the block before byte %d of the container file, %s: %w", b.End, c.Codec, err)
	}
	return out, nil
}

var decompressors = map[string]func([]byte) ([]byte, error){
	"null": func(b []byte) ([]byte, error) { return b, nil },
	"deflate": func(b []byte) ([]byte, error) {
		out, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(b)), maxContainerBlock+1))
		if err == nil && len(out) > maxContainerBlock {
			err = errors.New("it is larger than 1 GiB")
		}
		return out, err
	},
	"snappy": func(b []byte) ([]byte, error) {
		if len(b) < 4 {
			return nil, io.ErrUnexpectedEOF
		}
		body, sum := b[:len(b)-4], binary.BigEndian.Uint32(b[len(b)-4:])
		if n, err := snappy.DecodedLen(body); err != nil || n > maxContainerBlock {
			return nil, errors.New("it is not snappy, or larger than 1 GiB")
		}
		out, err := snappy.Decode(nil, body)
		if err == nil && crc32.ChecksumIEEE(out) != sum {
			err = errors.New("the checksum does not match")
		}
		return out, err
	},
	"zstandard": func(b []byte) ([]byte, error) {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxContainerBlock))
		if err != nil {
			return nil, err
		}
		defer d.Close()
		return d.DecodeAll(b, nil)
	},
}

// RunDecoder decodes runs of records: records that follow each other without any framing, as in the
// blocks of a container file.
type RunDecoder struct{ p *projection }

// NewRunDecoder returns a decoder of records of a schema. An error lists all faults of the
// mapping.
func NewRunDecoder(m schemas.Mapping, schema string) (*RunDecoder, error) {
	if err := errors.Join(Format.Check(m, &schemas.Schema{Text: schema})...); err != nil {
		return nil, err
	}
	l, err := m.Layout()
	if err != nil {
		return nil, err
	}
	return &RunDecoder{newProjection(l, -1, schema)}, nil
}

// Width returns the number of values of a reading.
func (d *RunDecoder) Width() int { return d.p.layout.Width }

// DecodeFirst decodes the first record of run, which has whole records, and returns the number of its bytes: the next
// record begins there. It returns 0 with an error after which that is not known. key and
// timestampMs stand for Kafka's. It may be called from several goroutines.
func (d *RunDecoder) DecodeFirst(run, key []byte, timestampMs int64, out *schemas.Reading) (n int, err error) {
	return d.p.first(key, run, timestampMs, out)
}

// TopFields returns the names of the fields of a record schema, nil for another schema.
func TopFields(schema string) []string {
	var s struct {
		Fields []struct {
			Name string `json:"name"`
		} `json:"fields"`
	}
	if json.Unmarshal([]byte(schema), &s) != nil {
		return nil
	}
	var names []string
	for _, f := range s.Fields {
		names = append(names, f.Name)
	}
	return names
}

// ContainerWriter writes an Avro object container file, compressed with zstandard.
// Records are appended as their Avro bytes.
type ContainerWriter struct {
	w     io.Writer
	sync  [16]byte
	buf   []byte
	count int64
	enc   *zstd.Encoder
}

// containerBlock is the size at which a block is written, before compression.
const containerBlock = 1 << 18

// NewContainerWriter writes the header of a file of records of the schema.
func NewContainerWriter(w io.Writer, schema string) (*ContainerWriter, error) {
	if _, err := Fingerprint(schema); err != nil {
		return nil, err
	}
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		return nil, fmt.Errorf("avro: %w", err)
	}
	c := &ContainerWriter{w: w, enc: enc}
	if _, err := rand.Read(c.sync[:]); err != nil {
		return nil, fmt.Errorf("avro: %w", err)
	}
	head := append([]byte(containerMagic), 4) // two pairs
	head = AppendText(AppendText(head, "avro.schema"), schema)
	head = AppendText(AppendText(head, "avro.codec"), "zstandard")
	head = append(append(head, 0), c.sync[:]...)
	if _, err := w.Write(head); err != nil {
		return nil, fmt.Errorf("avro: write a container file: %w", err)
	}
	return c, nil
}

// Append adds the record that add appends to the slice it is given.
func (c *ContainerWriter) Append(add func(dst []byte) []byte) error {
	c.buf = add(c.buf)
	c.count++
	if len(c.buf) < containerBlock {
		return nil
	}
	return c.Flush()
}

// Flush writes the appended records.
func (c *ContainerWriter) Flush() error {
	if c.count == 0 {
		return nil
	}
	data := c.enc.EncodeAll(c.buf, nil)
	out := AppendLong(AppendLong(nil, c.count), int64(len(data)))
	out = append(append(out, data...), c.sync[:]...)
	c.buf, c.count = c.buf[:0], 0
	if _, err := c.w.Write(out); err != nil {
		return fmt.Errorf("avro: write a container file: %w", err)
	}
	return nil
}
