//go:build !unix

package instance

import (
	"errors"
	"os"
)

func lock(*os.File) (free bool, err error) { return false, errors.ErrUnsupported }
