package seal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// LoadOrCreate reads the keys in a file, or creates the file with a fresh key
// and mode 0600. A key that others on the machine can read is refused. Of
// several processes that create the same file at once, all get the same key.
func LoadOrCreate(path string) (Keys, error) {
	keys, err := load(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return keys, err
	}
	tmp, err := writeBeside(path, New()+"\n")
	if err != nil {
		return Keys{}, fmt.Errorf("seal: create key file: %w", err)
	}
	defer os.Remove(tmp)
	// A link, not a rename: it never replaces a key that somebody else has just made.
	if err := os.Link(tmp, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return Keys{}, fmt.Errorf("seal: create key file: %w", err)
	}
	if err := syncFolder(path); err != nil {
		return Keys{}, fmt.Errorf("seal: create key file: %w", err)
	}
	return load(path)
}

// Rotate puts a fresh key in front of those in a key file. The old ones still
// open; they may be taken out once nothing is sealed with them.
func Rotate(path string) (Keys, error) {
	if _, err := load(path); err != nil {
		return Keys{}, err
	}
	old, err := os.ReadFile(path)
	if err != nil {
		return Keys{}, fmt.Errorf("seal: rotate: %w", err)
	}
	tmp, err := writeBeside(path, New()+",\n"+strings.TrimSpace(string(old))+"\n")
	if err != nil {
		return Keys{}, fmt.Errorf("seal: rotate: %w", err)
	}
	if err := os.Rename(tmp, path); err != nil {
		os.Remove(tmp)
		return Keys{}, fmt.Errorf("seal: rotate: %w", err)
	}
	if err := syncFolder(path); err != nil {
		return Keys{}, fmt.Errorf("seal: rotate: %w", err)
	}
	return load(path)
}

func load(path string) (Keys, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Keys{}, fmt.Errorf("seal: key file: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return Keys{}, fmt.Errorf("seal: key file %s is open to other users (mode %04o); make it private: chmod 600 %s", path, mode, path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return Keys{}, fmt.Errorf("seal: key file: %w", err)
	}
	keys, err := Parse(string(text))
	if err != nil {
		return Keys{}, fmt.Errorf("key file %s: %w", path, err)
	}
	return keys, nil
}

// writeBeside writes a private file next to path, safely on disk, and returns
// its name. os.CreateTemp gives mode 0600.
func writeBeside(path, text string) (string, error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		os.Remove(f.Name())
		return "", err
	}
	return f.Name(), nil
}

func syncFolder(path string) error {
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
