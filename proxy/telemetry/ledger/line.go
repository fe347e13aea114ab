package ledger

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"time"

	"penstock/proxy/telemetry/observe"
)

type ledgerHeader struct {
	Format  string    `json:"format"`
	Version int       `json:"version"`
	Edge    string    `json:"edge"` // identifies this ledger's rows to other edges
	Since   time.Time `json:"since"`
}

const (
	formatID      = "penstock ledger"
	formatVersion = 1
)

// UsageSumRow is a row in the file format.
type UsageSumRow struct {
	Day   string `json:"day"` // 2026-01-31, in UTC; empty for the sum of all days not stored individually
	Key   string `json:"key"`
	Model string `json:"model,omitempty"`
	User  string `json:"user,omitempty"` // a keyed hash; rows with a user have no model
	observe.UsageAmount
}

func newRow(r *observe.UsageRow) UsageSumRow {
	out := UsageSumRow{Key: r.Key, Model: r.Model, User: r.User, UsageAmount: r.UsageAmount}
	if r.Day != observe.OlderDays {
		out.Day = observe.FormatDay(r.Day)
	}
	return out
}

// maxCount is more than an edge can count in its lifetime. Larger sums could overflow, and a key
// with negative usage could use its entire budget again.
const maxCount = 1 << 53

func (r *UsageSumRow) usageRow() (observe.UsageRow, error) {
	out := observe.UsageRow{Key: r.Key, Model: r.Model, User: r.User, Day: observe.OlderDays, UsageAmount: r.UsageAmount}
	if max(r.Calls, r.Prompt, r.Cached, r.Completion, r.Estimated) > maxCount {
		return out, errChecksum
	}
	var err error
	if r.Day != "" {
		out.Day, err = observe.ParseDay(r.Day)
	}
	return out, err
}

var crcTable = crc32.MakeTable(crc32.Castagnoli)

// userLinePrefix is the prefix of lines about end users. It makes an edge with an older version
// skip these lines. Otherwise, that edge would read them as additional rows of their keys.
const userLinePrefix = "u"

func appendLine(dst []byte, v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic("BUG: a line of the ledger cannot be written: " + err.Error())
	}
	if r, ok := v.(UsageSumRow); ok && r.User != "" {
		dst = append(dst, userLinePrefix...)
	}
	dst = fmt.Appendf(dst, "%08x ", crc32.Checksum(text, crcTable))
	return append(append(dst, text...), '\n')
}

var errChecksum = errors.New("the line does not fit its checksum")

// parseLine parses a line from appendLine, without the line end. If it returns errChecksum, into
// contains the members that could be read, so that a warning can name the row.
func parseLine(line []byte, into any) error {
	sum, text, found := bytes.Cut(bytes.TrimPrefix(line, []byte(userLinePrefix)), []byte(" "))
	var want [4]byte
	if n, err := hex.Decode(want[:], sum[:min(len(sum), 8)]); !found || len(sum) != 8 || err != nil || n != 4 {
		return errChecksum
	}
	got := crc32.Checksum(text, crcTable)
	if [4]byte{byte(got >> 24), byte(got >> 16), byte(got >> 8), byte(got)} != want {
		_ = json.Unmarshal(text, into) // most members are still intact
		return errChecksum
	}
	return json.Unmarshal(text, into)
}

const maxLostRows = 10

// String describes the row for operators.
func (id rowID) String() string {
	day, of := "the days before", ""
	if id.day != observe.OlderDays {
		day = observe.FormatDay(id.day)
	}
	switch {
	case id.model != "":
		of = ", model " + id.model
	case id.user != "":
		of = ", end user " + id.user
	}
	return "key " + id.key + of + ", " + day
}

const maxLineBytes = 64 << 10

type ledgerContent struct {
	header        ledgerHeader
	rows          []observe.UsageRow // one row for each day
	completeBytes int64              // length of the file up to the end of the last complete line
	torn          bool               // whether a truncated line follows the last complete line
	badLines      int
	lostRows      []rowID // rows without a valid line whose names could be read
	// wasEmptied is true if the file was once a ledger and is empty now.
	wasEmptied bool
}

// errNotLedger means that the file was not written by an edge.
var errNotLedger = errors.New("not the ledger of a penstock")

// readLedger reads a ledger. It rejects a file that does not start like a ledger, so that the edge
// never overwrites another file.
func readLedger(from io.Reader) (c ledgerContent, err error) {
	in, at := bufio.NewReaderSize(from, maxLineBytes), map[rowID]int{}
	for {
		line, err := in.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			c.torn = len(line) > 0
			if c.header.Format == "" && c.torn {
				return c, fmt.Errorf("%w: its first line is cut", errNotLedger)
			}
			c.lostRows = slices.DeleteFunc(c.lostRows, func(id rowID) bool { _, known := at[id]; return known })
			return c, nil
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return c, err
		}
		first := c.completeBytes == 0
		c.completeBytes += int64(len(line))
		switch {
		case first:
			if parseLine(bytes.TrimSuffix(line, []byte("\n")), &c.header) != nil || c.header.Format != formatID {
				return c, errNotLedger
			}
			if c.header.Version != formatVersion {
				return c, fmt.Errorf("%w of this version, but of version %d", errNotLedger, c.header.Version)
			}
		default:
			c.addLine(line, at)
		}
	}
}

func (c *ledgerContent) addLine(line []byte, at map[rowID]int) {
	var r UsageSumRow
	err := parseLine(bytes.TrimSuffix(line, []byte("\n")), &r)
	row, wrongDay := r.usageRow()
	if err != nil || wrongDay != nil {
		c.badLines++
		if id := newRowID(&row); wrongDay == nil && id.key != "" && len(c.lostRows) < maxLostRows {
			c.lostRows = append(c.lostRows, id)
		}
		return
	}
	if i, known := at[newRowID(&row)]; known {
		c.rows[i] = row
		return
	}
	at[newRowID(&row)] = len(c.rows)
	c.rows = append(c.rows, row)
}

type rowID struct {
	key, model, user string
	day              int64
}

func newRowID(r *observe.UsageRow) rowID { return rowID{r.Key, r.Model, r.User, r.Day} }
