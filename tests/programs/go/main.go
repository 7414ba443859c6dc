// Downloads with Go's HTTP client, over HTTP/2: main URL CERTIFICATE PATH COUNT TOGETHER BYTES. Each of COUNT answers
// must have so many bytes.
package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"
)

func number(at int) int64 {
	value, err := strconv.ParseInt(os.Args[at], 10, 64)
	if err != nil {
		panic(err)
	}
	return value
}

// Reads as programs do that take a body apart: a few kilobytes at a time.
func read(body io.Reader, large bool) (int64, error) {
	if !large {
		return io.Copy(io.Discard, body)
	}
	buffered, total, piece := bufio.NewReader(body), int64(0), make([]byte, 1000)
	for {
		count, err := buffered.Read(piece)
		total += int64(count)
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

func main() {
	url, count, together, bytes := os.Args[1]+os.Args[3], number(4), number(5), number(6)
	authority, err := os.ReadFile(os.Args[2])
	if err != nil {
		panic(err)
	}
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(authority)
	client := &http.Client{
		Timeout:   3 * time.Minute,
		Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: authorities}},
	}
	var group sync.WaitGroup
	var lock sync.Mutex
	lost := map[string]int{}
	work := make(chan struct{})
	for i := int64(0); i < together; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for range work {
				err := func() error {
					response, err := client.Get(url)
					if err != nil {
						return err
					}
					defer response.Body.Close()
					got, err := read(response.Body, bytes > 10000000)
					if err == nil && (got != bytes || response.ProtoMajor != 2) {
						return fmt.Errorf("%d bytes over %s", got, response.Proto)
					}
					return err
				}()
				if err != nil {
					lock.Lock()
					lost[err.Error()]++
					lock.Unlock()
				}
			}
		}()
	}
	for i := int64(0); i < count; i++ {
		work <- struct{}{}
	}
	close(work)
	group.Wait()
	if len(lost) > 0 {
		fmt.Println("lost:", lost)
		os.Exit(1)
	}
}
