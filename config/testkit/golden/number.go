package golden

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// Unmarshal is like json.Unmarshal, but decodes numbers in an any as json.Number, without a limit
// on their size.
func Unmarshal(text []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one value")
	}
	return nil
}
