/** Elements of a page without a framework. Children that are strings become text nodes, never markup. */

type Make<E> = (tag: string, attributes?: Record<string, string | number>, ...children: (Node | string)[]) => E;

const made =
  <E extends Element>(create: (tag: string) => E): Make<E> =>
  (tag, attributes = {}, ...children) => {
    const element = create(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
    element.append(...children);
    return element;
  };

export const html = made(tag => document.createElement(tag));
export const svg = made<SVGElement>(tag => document.createElementNS("http://www.w3.org/2000/svg", tag as "svg"));
