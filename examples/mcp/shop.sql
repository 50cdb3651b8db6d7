CREATE TABLE products (id INTEGER PRIMARY KEY, name TEXT, category TEXT, price REAL, stock INTEGER);
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, city TEXT);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER, product_id INTEGER, quantity INTEGER, ordered_on TEXT);
INSERT INTO products VALUES
  (1, 'Blue mug', 'kitchen', 9.5, 40), (2, 'Desk lamp', 'light', 34.0, 12), (3, 'Tea towel', 'kitchen', 6.25, 75),
  (4, 'Floor lamp', 'light', 89.0, 5), (5, 'Notebook', 'paper', 4.5, 200), (6, 'Fountain pen', 'paper', 27.9, 18),
  (7, 'Candle', 'light', 3.2, 160), (8, 'Kettle', 'kitchen', 49.0, 9);
INSERT INTO customers VALUES
  (1, 'Ana Silva', 'Lisbon'), (2, 'Bo Lind', 'Oslo'), (3, 'Chen Wei', 'Oslo'), (4, 'Dora Kovacs', 'Budapest'),
  (5, 'Emil Olsen', 'Oslo'), (6, 'Fatima Noor', 'Lisbon');
INSERT INTO orders VALUES
  (1, 2, 1, 4, '2026-01-09'), (2, 1, 2, 1, '2026-01-12'), (3, 4, 7, 10, '2026-01-20'), (4, 2, 8, 1, '2026-02-02'),
  (5, 3, 5, 12, '2026-02-14'), (6, 6, 1, 6, '2026-02-20'), (7, 2, 4, 1, '2026-03-01'), (8, 5, 6, 2, '2026-03-08'),
  (9, 4, 1, 2, '2026-03-15'), (10, 1, 3, 5, '2026-03-22');
