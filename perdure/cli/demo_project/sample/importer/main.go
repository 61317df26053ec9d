// Command importer reads a publisher's catalogue.
package main

import (
	"bufio"
	"fmt"
	"os"
)

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		// TODO(#118): skip entries without an ISBN
		fmt.Println(lines.Text())
	}
}
